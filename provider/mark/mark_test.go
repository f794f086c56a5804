package mark_test

import (
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

func TestOnlyAnOpenMachineWasLeftBehind(t *testing.T) {
	for value, left := range map[string]bool{mark.Open: true, mark.Done: false, "": false, "x": false} {
		if got := mark.Finished(map[string]string{mark.CreateKey: value}) == ""; got != left {
			t.Errorf("%q: %v", value, got)
		}
	}
}

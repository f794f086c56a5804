package claims_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
)

var key = claims.Key{Kind: "machine", Name: `"main" in app a`}

func TestTwoCreatesOfOneKeyAreAnError(t *testing.T) {
	r := claims.New()
	if _, err := r.Creates(key); err != nil {
		t.Fatal(err)
	}
	var twice *claims.TwiceError
	if _, err := r.Creates(key); !errors.As(err, &twice) {
		t.Fatalf("got %v", err)
	}
}

func TestACreateBeforeAnExistingObjectIsTwoResources(t *testing.T) {
	r := claims.New()
	if _, err := r.Creates(key); err != nil {
		t.Fatal(err)
	}
	if err := r.Exists(key, "m1"); err == nil {
		t.Fatal("a create and another resource's object were taken for one")
	}
}

func TestACreateAfterAnExistingObjectMustNotAdoptIt(t *testing.T) {
	r := claims.New()
	for range 2 { // Terraform may plan one resource more than once
		if err := r.Exists(key, "m1"); err != nil {
			t.Fatal(err)
		}
	}
	held, err := r.Creates(key)
	if err != nil || !slices.Equal(held, []string{"m1"}) {
		t.Fatalf("held %v, %v", held, err)
	}
}

func TestAnObjectIsTakenOnce(t *testing.T) {
	r := claims.New()
	if !r.Take("m1") || r.Take("m1") || !r.Take("m2") {
		t.Fatal("an object was taken twice, or refused to the first")
	}
}

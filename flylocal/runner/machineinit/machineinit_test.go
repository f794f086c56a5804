package machineinit

import "testing"

func TestProgramThatNeverCalledRunIfInitMayNotStartMachines(t *testing.T) {
	if Check() == nil {
		t.Error("this test binary has not called RunIfInit, yet it may start machines")
	}
	RunIfInit()
	if err := Check(); err != nil {
		t.Error(err)
	}
}

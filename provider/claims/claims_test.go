package claims_test

import (
	"errors"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
)

var key = claims.Key{Kind: "machine", Name: `"main" in app a`}

func TestTwoCreatesOfOneKeyAreAnError(t *testing.T) {
	r := claims.New()
	if err := r.Creates(key); err != nil {
		t.Fatal(err)
	}
	var twice *claims.TwiceError
	if err := r.Creates(key); !errors.As(err, &twice) {
		t.Fatalf("got %v", err)
	}
}

func TestACreateBeforeAnExistingObjectIsTwoResources(t *testing.T) {
	r := claims.New()
	if err := r.Creates(key); err != nil {
		t.Fatal(err)
	}
	if err := r.Exists(key); err == nil {
		t.Fatal("a create and another resource's object were taken for one")
	}
}

func TestAReplacementIsNoConflictWithItself(t *testing.T) {
	r := claims.New()
	if err := r.Exists(key); err != nil {
		t.Fatal(err)
	}
	if err := r.Creates(key); err != nil {
		t.Fatal(err)
	}
}

func TestAnObjectIsTakenOnce(t *testing.T) {
	r := claims.New()
	if !r.Take("m1") || r.Take("m1") || !r.Take("m2") {
		t.Fatal("an object was taken twice, or refused to the first")
	}
}

func TestOnlyWhatThisProcessMadeIsFresh(t *testing.T) {
	r := claims.New()
	if r.Fresh(key) {
		t.Fatal("an object that nobody made is fresh")
	}
	r.Take(key.String())
	if !r.Fresh(key) {
		t.Fatal("a made object is not")
	}
	r.Adopt(key)
	if r.Fresh(key) {
		t.Fatal("an adopted one is")
	}
}

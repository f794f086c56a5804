package control

import (
	"errors"
	"io"
	"os"
	"testing"
)

type note struct{ Text string }

// accept runs the far side of one conversation and hands its error back.
func far(t *testing.T, l *Line, serve func(*Conversation) error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		done <- serve(c)
	}()
	return done
}

func pair(t *testing.T) (near, inherited *Line) {
	t.Helper()
	near, f, err := NewLine()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inherited, err = FromFile(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); inherited.Close() })
	return near, inherited
}

func TestConversationCarriesMessagesWithTheirFiles(t *testing.T) {
	near, inherited := pair(t)
	done := far(t, inherited, func(c *Conversation) error {
		for range 2 {
			var got note
			files, err := c.Receive(&got)
			if err != nil {
				return err
			}
			if len(files) != len(got.Text) {
				return errors.New("the files of one message came with another")
			}
			for _, f := range files {
				if _, err := f.WriteString(got.Text); err != nil {
					return err
				}
				f.Close()
			}
		}
		return c.Send(note{"done"})
	})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := near.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(c.Send(note{"a"}, w), c.Send(note{"bb"}, w, w)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var got note
	if _, err := c.Receive(&got); err != nil || got.Text != "done" {
		t.Fatalf("answer %q, %v", got.Text, err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "abbbb" {
		t.Errorf("through the passed files came %q, %v", text, err)
	}
}

func TestEachSideSeesTheOthersEnd(t *testing.T) {
	near, inherited := pair(t)
	c, err := near.Open()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody accepts: the conversation must end with the line, not hang.
	inherited.Close()
	var got note
	if _, err := c.Receive(&got); !errors.Is(err, io.EOF) {
		t.Errorf("a conversation that nobody took ended with %v, not EOF", err)
	}
	near2, inherited2 := pair(t)
	near2.Close()
	if _, err := inherited2.Accept(); !errors.Is(err, io.EOF) {
		t.Errorf("the line's end is %v, not EOF", err)
	}
}

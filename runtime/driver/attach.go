package driver

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// files came with a submission.
type files struct {
	submission uuid.UUID
	list       []journal.Attachment
}

// files are those of the open submission, and of those that have joined it.
func (s *session) files() []files {
	open := s.state.Open()
	if open == nil {
		return nil
	}
	var all []files
	for _, item := range s.state.Conversation {
		if item.Input == nil || item.Seq < open.InputSeq {
			continue
		}
		came := files{submission: item.Input.Submission}
		for _, part := range item.Input.Parts {
			if part.Attachment != nil {
				came.list = append(came.list, *part.Attachment)
			}
		}
		if len(came.list) > 0 {
			all = append(all, came)
		}
	}
	return all
}

// AttachmentPath is where an attachment is in the workspace.
func AttachmentPath(submission uuid.UUID, name string) string {
	return path.Join("attachments", submission.String(), path.Base(path.Clean("/"+name)))
}

// put puts the files that came with submissions into the workspace, before the first call can use them. Each is one operation
// of the machine under an id that follows from the submission, so that no owner after this one overwrites what has been made
// of it.
func (s *session) put(ctx context.Context, place *Place, all []files) error {
	for _, came := range all {
		err := s.places.once(ctx, came.submission, func() error {
			for _, file := range came.list {
				if err := s.putFile(ctx, place, came.submission, file); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) putFile(ctx context.Context, place *Place, submission uuid.UUID, file journal.Attachment) error {
	name := file.Path
	if name == "" {
		name = AttachmentPath(submission, file.Name)
	}
	id, err := wire.DeriveID(submission.String(), "attachment "+name)
	if err != nil {
		return fmt.Errorf("attachment %q: %w", file.Name, err)
	}
	data, err := s.options.Store.Blob(ctx, s.claim.Tenant, file.SHA256)
	if err != nil {
		return fmt.Errorf("attachment %q: %w", file.Name, err)
	}
	err = place.Box.Once(id).WriteFile(ctx, name, data, sandbox.WriteOptions{})
	if errors.Is(err, sandbox.ErrExpired) {
		// The submission is older than the machine's memory of ids: what is there is left.
		there, statErr := place.Box.Exists(ctx, name)
		if err = statErr; err == nil && !there {
			err = place.Box.WriteFile(ctx, name, data, sandbox.WriteOptions{})
		}
	}
	if err == nil || isUnavailable(err) || ctx.Err() != nil {
		return err
	}
	// A full disk, a file in the way: the agent sees that it is not there.
	s.log.WarnContext(ctx, "an attachment was not delivered", "name", file.Name, "error", err)
	return nil
}

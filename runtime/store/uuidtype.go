package store

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// binaryUUIDs lets a connection send and receive ids as their 16 bytes. Left alone, pgx takes the way of database/sql
// and formats and parses each as text, which an insert of a thousand entries spends most of its time with.
func binaryUUIDs(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{wrapEncode}, types.TryWrapEncodePlanFuncs...)
	types.TryWrapScanPlanFuncs = append([]pgtype.TryWrapScanPlanFunc{wrapScan}, types.TryWrapScanPlanFuncs...)
	return nil
}

// id is a uuid.UUID as pgx's own UUID codec knows it.
type id uuid.UUID

// ScanUUID is pgtype.UUIDScanner's.
func (d *id) ScanUUID(v pgtype.UUID) error {
	if !v.Valid {
		return errors.New("store: NULL is no id")
	}
	*d = v.Bytes
	return nil
}

// UUIDValue is pgtype.UUIDValuer's.
func (d id) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: d, Valid: true}, nil }

type encodePlan struct{ next pgtype.EncodePlan }

func (p *encodePlan) SetNext(next pgtype.EncodePlan) { p.next = next }

func (p *encodePlan) Encode(value any, buf []byte) ([]byte, error) {
	return p.next.Encode(id(value.(uuid.UUID)), buf)
}

func wrapEncode(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	if v, ours := value.(uuid.UUID); ours {
		return &encodePlan{}, id(v), true
	}
	return nil, nil, false
}

type scanPlan struct{ next pgtype.ScanPlan }

func (p *scanPlan) SetNext(next pgtype.ScanPlan) { p.next = next }

func (p *scanPlan) Scan(src []byte, target any) error {
	return p.next.Scan(src, (*id)(target.(*uuid.UUID)))
}

func wrapScan(target any) (pgtype.WrappedScanPlanNextSetter, any, bool) {
	if v, ours := target.(*uuid.UUID); ours {
		return &scanPlan{}, (*id)(v), true
	}
	return nil, nil, false
}

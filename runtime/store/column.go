package store

import (
	"encoding/binary"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// column is one array that a statement takes, in the binary form of Postgres, grown element by element. pgx would come to the
// same bytes by reflection, in memory that it grows anew for every statement: for a thousand entries that costs more than
// all the rest that this process does for them.
type column struct {
	data  []byte
	count uint32
	nulls uint32
}

// columnHead is the length of what comes before the elements: dimensions, whether there are NULLs, the elements' type, their
// count and the first index.
const columnHead = 20

// start empties the column and makes it one of a type. Memory of an unusually large batch is not kept.
func (c *column) start(elements uint32) {
	if cap(c.data) > 1<<20 {
		c.data = nil
	}
	c.data = append(c.data[:0], make([]byte, columnHead)...)
	c.count, c.nulls = 0, 0
	binary.BigEndian.PutUint32(c.data[8:], elements)
}

// param is the array; it is valid until start.
func (c *column) param() []byte {
	binary.BigEndian.PutUint32(c.data[0:], 1)
	binary.BigEndian.PutUint32(c.data[4:], c.nulls)
	binary.BigEndian.PutUint32(c.data[12:], c.count)
	binary.BigEndian.PutUint32(c.data[16:], 1)
	return c.data
}

func (c *column) element(size int) {
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(size))
	c.count++
}

func (c *column) null() {
	c.data = binary.BigEndian.AppendUint32(c.data, 0xffff_ffff)
	c.count++
	c.nulls = 1
}

func (c *column) int16(v int16) {
	c.element(2)
	c.data = binary.BigEndian.AppendUint16(c.data, uint16(v))
}

func (c *column) int32(v int32) {
	c.element(4)
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(v))
}

func (c *column) int64(v int64) {
	c.element(8)
	c.data = binary.BigEndian.AppendUint64(c.data, uint64(v))
}

func (c *column) uuid(v uuid.UUID) {
	c.element(len(v))
	c.data = append(c.data, v[:]...)
}

// uuidOrNull is an id, or NULL for none.
func (c *column) uuidOrNull(v uuid.UUID) {
	if v == uuid.Nil {
		c.null()
		return
	}
	c.uuid(v)
}

func (c *column) textOrNull(v string) {
	if v == "" {
		c.null()
		return
	}
	c.element(len(v))
	c.data = append(c.data, v...)
}

func (c *column) bytes(v []byte) {
	c.element(len(v))
	c.data = append(c.data, v...)
}

// steps are the parameters of statement.Append, in its order: those of steps, then those of entries. The bodies are last,
// because pgx copies what comes before once more for every parameter that it has no room for.
type steps struct {
	step, session, owner, fence, after                                          column
	entryStep, entrySession, entrySeq, entryFence, kind, submission, call, body column
}

func (s *steps) columns() [13]*column {
	return [...]*column{
		&s.step, &s.session, &s.owner, &s.fence, &s.after,
		&s.entryStep, &s.entrySession, &s.entrySeq, &s.entryFence, &s.kind, &s.submission, &s.call, &s.body,
	}
}

// stepTypes are those of columns.
var stepTypes = [13]uint32{
	pgtype.Int4OID, pgtype.UUIDOID, pgtype.UUIDOID, pgtype.Int8OID, pgtype.Int8OID,
	pgtype.Int4OID, pgtype.UUIDOID, pgtype.Int8OID, pgtype.Int8OID, pgtype.Int2OID, pgtype.UUIDOID, pgtype.TextOID, pgtype.ByteaOID,
}

// fill gives the parameters for a batch, to be sent over a connection that is there at that life; they are valid until the next.
func (s *steps) fill(batch []*pending, at int64) [][]byte {
	columns := s.columns()
	for i, c := range columns {
		c.start(stepTypes[i])
	}
	for i, p := range batch {
		s.step.int32(int32(i))
		s.session.uuid(p.claim.Session)
		s.owner.uuid(p.claim.Executor)
		s.fence.int64(p.claim.Fence)
		if p.claim.tip.is(p.after, at) {
			s.after.null()
		} else {
			s.after.int64(p.after)
		}
		for _, r := range p.rows {
			s.entryStep.int32(int32(i))
			s.entrySession.uuid(p.claim.Session)
			s.entrySeq.int64(r.entry.Seq)
			s.entryFence.int64(p.claim.Fence)
			s.kind.int16(int16(r.entry.Kind))
			s.submission.uuidOrNull(r.entry.Submission)
			s.call.textOrNull(r.entry.Call)
			s.body.bytes(r.body)
		}
	}
	params := make([][]byte, len(columns))
	for i, c := range columns {
		params[i] = c.param()
	}
	return params
}

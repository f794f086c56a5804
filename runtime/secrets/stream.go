package secrets

// Stream masks text that comes in pieces. However it is cut, what comes out is the same as if it had come
// whole: of what may still become a secret nothing comes out until that is known, which is after a few times
// MaxSecret at most.
type Stream struct {
	redactor *Redactor
	// held are the bytes from offset on.
	held   []byte
	offset int64
	// before is the byte that came out last: a key begins at the beginning of a word.
	before byte
	// torn: nothing has come out since a gap, so the bytes may begin in the middle of a secret.
	torn bool
}

// end is what follows the bytes of a stream.
type end int

const (
	more end = iota
	nothing
	gap
)

// Chunk is a piece of a stream.
type Chunk struct {
	// Offset of the first raw byte, and how many raw bytes it stands for. A chunk never ends inside a secret, so a
	// stream can be resumed after any.
	Offset int64
	RawLen int
	// Data is what may be shown; it is not as long as the raw bytes when Masks is not 0.
	Data  []byte
	Masks int
}

// Stream masks from offset 0 on.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Resume goes on at the raw offset where a chunk ended; last is that chunk's Data, which is empty for a gap.
func (r *Redactor) Resume(offset int64, last []byte) *Stream {
	if offset > 0 && len(last) == 0 {
		return r.AfterGap(offset)
	}
	s := &Stream{redactor: r, offset: offset}
	if len(last) > 0 {
		s.before = last[len(last)-1]
	}
	return s
}

// AfterGap goes on at a raw offset before which bytes are missing. Where the text begins with MinValue bytes or more that a known
// value may end with, they are masked. Of what has only the shape of a key nobody knows the end.
func (r *Redactor) AfterGap(offset int64) *Stream {
	return &Stream{redactor: r, offset: offset, torn: true}
}

// Write takes raw bytes and gives what is decided; RawLen is 0 when nothing is.
func (s *Stream) Write(raw []byte) Chunk {
	s.held = append(s.held, raw...)
	return s.emit(more)
}

// Close gives the rest: no more bytes will come.
func (s *Stream) Close() Chunk { return s.emit(nothing) }

// Cut gives the rest before a gap: what would be held back is masked when it has MinValue bytes or more, because the rest of a
// secret may be among what is missing.
func (s *Stream) Cut() Chunk { return s.emit(gap) }

func (s *Stream) emit(then end) Chunk {
	chunk := Chunk{Offset: s.offset}
	text := s.held
	at, plain := 0, 0
	for at < len(text) {
		if !s.torn && at+1 < len(text) && s.redactor.passes(text[at], text[at+1]) {
			s.before = text[at]
			at++
			continue
		}
		found := s.find(text[at:], then)
		if found.undecided {
			break
		}
		if found.to == 0 {
			s.before = text[at]
			at++
			continue
		}
		chunk.Data = append(append(chunk.Data, text[plain:at+found.from]...), Mask...)
		chunk.Masks++
		s.before = Mask[len(Mask)-1]
		at += found.to
		plain = at
	}
	chunk.Data = append(chunk.Data, text[plain:at]...)
	chunk.RawLen = at
	s.held = append([]byte(nil), text[at:]...)
	s.offset += int64(at)
	return chunk
}

// find looks for secrets at the beginning of a text, up to the end of those that lie over each other.
func (s *Stream) find(text []byte, then end) span {
	found := s.redactor.match(text, s.before, then == nothing)
	if s.torn && !found.undecided {
		if rest := s.redactor.rest(text, then); rest.undecided || rest.to > 0 {
			found = span{to: max(found.to, rest.to), undecided: rest.undecided}
		}
	}
	if !found.undecided && found.to > 0 {
		found.to, found.undecided = s.redactor.extend(text, found, then == nothing)
	}
	if found.undecided && then == gap {
		found = span{}
		if len(text) >= MinValue {
			found.to = len(text)
		}
	}
	s.torn = s.torn && found.undecided
	return found
}

// rest looks at the beginning of a text for the rest of a known value whose beginning is missing, or for its middle when more is
// missing behind the text.
func (r *Redactor) rest(text []byte, then end) span {
	found := span{}
	for _, known := range r.known {
		for _, form := range known {
			for at := 1; at <= len(form)-MinValue; at++ {
				n := min(len(form)-at, len(text))
				switch {
				case string(text[:n]) != form[at:at+n]:
				case at+n == len(form):
					found.to = max(found.to, n)
				case then != nothing:
					return span{undecided: true}
				}
			}
		}
	}
	return found
}

// span is where in a text a secret is. The zero value is none.
type span struct {
	from, to int
	// undecided: more bytes are needed to know.
	undecided bool
}

// match looks for a secret at the beginning of a text.
func (r *Redactor) match(text []byte, before byte, closing bool) span {
	found := span{}
	for _, form := range r.known[text[0]] {
		n := min(len(form), len(text))
		if string(text[:n]) != form[:n] {
			continue
		}
		if n == len(form) {
			// The longest comes first.
			found = span{to: n}
			break
		}
		if !closing {
			return span{undecided: true}
		}
	}
	if r.exact {
		return found
	}
	for _, shape := range shapesBy[text[0]] {
		if shape.word && isWord(before) {
			continue
		}
		shaped := shape.match(text, closing)
		if shaped.undecided {
			return shaped
		}
		if shaped.to > found.to {
			if found.to > 0 {
				shaped.from = 0
			}
			found = shaped
		}
	}
	return found
}

// extend finds the end of secrets that lie over each other: the one that begins first is not all of it.
func (r *Redactor) extend(text []byte, found span, closing bool) (to int, undecided bool) {
	to = found.to
	for at := max(found.from, 1); at < to && to < 2*MaxSecret; at++ {
		next := r.match(text[at:], text[at-1], closing)
		if next.undecided {
			return 0, true
		}
		to = max(to, at+next.to)
	}
	return to, false
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

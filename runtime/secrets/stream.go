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
}

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

// Resume goes on at the raw offset where a chunk ended; last is that chunk's Data.
func (r *Redactor) Resume(offset int64, last []byte) *Stream {
	s := &Stream{redactor: r, offset: offset}
	if len(last) > 0 {
		s.before = last[len(last)-1]
	}
	return s
}

// Write takes raw bytes and gives what is decided; RawLen is 0 when nothing is.
func (s *Stream) Write(raw []byte) Chunk {
	s.held = append(s.held, raw...)
	return s.emit(false)
}

// Close gives the rest: no more bytes will come.
func (s *Stream) Close() Chunk { return s.emit(true) }

func (s *Stream) emit(closing bool) Chunk {
	chunk := Chunk{Offset: s.offset}
	text := s.held
	at, plain := 0, 0
	for at < len(text) {
		if at+1 < len(text) && s.redactor.passes(text[at], text[at+1]) {
			s.before = text[at]
			at++
			continue
		}
		found := s.redactor.match(text[at:], s.before, closing)
		if found.undecided {
			break
		}
		if found.to == 0 {
			s.before = text[at]
			at++
			continue
		}
		to, undecided := s.redactor.extend(text[at:], found, closing)
		if undecided {
			break
		}
		chunk.Data = append(append(chunk.Data, text[plain:at+found.from]...), Mask...)
		chunk.Masks++
		s.before = Mask[len(Mask)-1]
		at += to
		plain = at
	}
	chunk.Data = append(chunk.Data, text[plain:at]...)
	chunk.RawLen = at
	s.held = append([]byte(nil), text[at:]...)
	s.offset += int64(at)
	return chunk
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

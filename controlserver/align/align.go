// Package align cuts bytes between UTF-8 sequences.
package align

// MostHeld is the most bytes that Cut ever leaves: a sequence has four at most.
const MostHeld = 3

// Cut returns how many bytes of data to send now, so that the rest, at most MostHeld bytes, is the
// beginning of a UTF-8 sequence that more bytes may complete. Bytes that can no longer become valid
// text are not held. It looks at the end of data alone and is total: any bytes may come.
func Cut(data []byte) int {
	n := len(data)
	for back := 1; back <= MostHeld && back <= n; back++ {
		c := data[n-back]
		switch {
		case c < 0x80:
			return n
		case c >= 0xC0:
			if unfinished(data[n-back:]) {
				return n - back
			}
			return n
		}
	}
	return n
}

// unfinished says whether tail, which begins with a leading byte, is a proper prefix of a valid
// sequence (RFC 3629, table 3-7 of the Unicode standard).
func unfinished(tail []byte) bool {
	lead := tail[0]
	var size int
	low, high := byte(0x80), byte(0xBF)
	switch {
	case lead >= 0xC2 && lead <= 0xDF:
		size = 2
	case lead >= 0xE0 && lead <= 0xEF:
		size = 3
		switch lead {
		case 0xE0:
			low = 0xA0
		case 0xED:
			high = 0x9F
		}
	case lead >= 0xF0 && lead <= 0xF4:
		size = 4
		switch lead {
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F
		}
	default:
		return false
	}
	if len(tail) >= size {
		return false
	}
	// The second byte has the narrow range; the scan in Cut saw that all after it are continuations.
	return len(tail) < 2 || tail[1] >= low && tail[1] <= high
}

package rootfs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Layer is one layer of an image; v1.Layer of go-containerregistry is one.
type Layer interface {
	// Uncompressed is the layer as plain tar; reading it to the end verifies it.
	Uncompressed() (io.ReadCloser, error)
}

// The stream is, for each layer, chunks of length (uint32, big endian) and bytes, then a chunk of length zero; and
// after the last layer endOfLayers in place of a length. So a broken writer is never read as an image that ends there.
const (
	endOfLayers = 0xffffffff
	maxChunk    = 1 << 20
)

// WriteLayers writes the layers, lowest first, for Unpack to read.
func WriteLayers(w io.Writer, layers []Layer) error {
	for i, l := range layers {
		if err := writeLayer(w, l); err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return writeLength(w, endOfLayers)
}

func writeLayer(w io.Writer, l Layer) error {
	r, err := l.Uncompressed()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer r.Close()
	buf := make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if werr := writeLength(w, uint32(n)); werr != nil {
				return werr
			}
			if _, werr := w.Write(buf[:n]); werr != nil {
				return fmt.Errorf("hand on: %w", werr)
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return writeLength(w, 0)
		case err != nil:
			return fmt.Errorf("read: %w", err)
		}
	}
}

func writeLength(w io.Writer, n uint32) error {
	if _, err := w.Write(binary.BigEndian.AppendUint32(nil, n)); err != nil {
		return fmt.Errorf("hand on: %w", err)
	}
	return nil
}

// layerReader takes the stream apart again.
type layerReader struct {
	r       *bufio.Reader
	current *frameReader
}

func newLayerReader(r io.Reader) *layerReader {
	return &layerReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// next drops what is left of the current layer and returns the next one, io.EOF after the last.
func (l *layerReader) next() (io.Reader, error) {
	if l.current != nil {
		if _, err := io.Copy(io.Discard, l.current); err != nil {
			return nil, err
		}
	}
	mark, err := l.r.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("the image's layers broke off: %w", unexpected(err))
	}
	if binary.BigEndian.Uint32(mark) == endOfLayers {
		return nil, io.EOF
	}
	l.current = &frameReader{r: l.r}
	return l.current, nil
}

type frameReader struct {
	r    *bufio.Reader
	left uint32
	end  bool
}

func (f *frameReader) Read(p []byte) (int, error) {
	if f.left == 0 && !f.end {
		var head [4]byte
		if _, err := io.ReadFull(f.r, head[:]); err != nil {
			return 0, fmt.Errorf("the layer broke off: %w", unexpected(err))
		}
		f.left = binary.BigEndian.Uint32(head[:])
		f.end = f.left == 0
		if f.left > maxChunk {
			return 0, fmt.Errorf("the layer's stream is damaged: a chunk of %d bytes", f.left)
		}
	}
	if f.end {
		return 0, io.EOF
	}
	n, err := f.r.Read(p[:min(len(p), int(f.left))])
	f.left -= uint32(n)
	if err != nil {
		err = fmt.Errorf("the layer broke off: %w", unexpected(err))
	}
	return n, err
}

// unexpected keeps an early end of the stream from being read as the end of a layer.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

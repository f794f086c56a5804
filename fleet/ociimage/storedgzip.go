package ociimage

import (
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
)

// storedBlock is the content of one stored deflate block: a size of ours, the same for ever.
const storedBlock = 65535

const (
	gzipHeaderSize  = 10
	gzipTrailerSize = 8
	storedHeader    = 5
)

// storedGzipSize is the length of the gzip form of size bytes.
func storedGzipSize(size int64) int64 {
	blocks := max((size+storedBlock-1)/storedBlock, 1)
	return gzipHeaderSize + blocks*storedHeader + size + gzipTrailerSize
}

// storedGzip turns size bytes of src into gzip (RFC 1952) whose deflate blocks (RFC 1951, 3.2.4) are all
// stored. It is written here because a library's choice of blocks may change, and with it every digest.
func storedGzip(src io.ReadCloser, size int64) io.ReadCloser {
	return &storedGzipReader{
		src: src, left: size, sum: crc32.NewIEEE(), size: size,
		out: []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff},
	}
}

type storedGzipReader struct {
	src  io.ReadCloser
	size int64
	left int64
	sum  hash.Hash32
	out  []byte // ready bytes
	done bool
	buf  [storedHeader + storedBlock]byte
}

func (r *storedGzipReader) Read(p []byte) (int, error) {
	if len(r.out) == 0 {
		if r.done {
			return 0, io.EOF
		}
		if err := r.block(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func (r *storedGzipReader) block() error {
	n := min(r.left, storedBlock)
	b := r.buf[storedHeader : storedHeader+n]
	if _, err := io.ReadFull(r.src, b); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	r.left -= n
	r.sum.Write(b)
	r.buf[0] = 0
	if r.left == 0 {
		r.buf[0] = 1 // final block
	}
	binary.LittleEndian.PutUint16(r.buf[1:], uint16(n))
	binary.LittleEndian.PutUint16(r.buf[3:], ^uint16(n))
	r.out = r.buf[:storedHeader+n]
	if r.left == 0 {
		r.done = true
		trailer := binary.LittleEndian.AppendUint32(nil, r.sum.Sum32())
		trailer = binary.LittleEndian.AppendUint32(trailer, uint32(r.size))
		r.out = append(append([]byte(nil), r.out...), trailer...)
	}
	return nil
}

func (r *storedGzipReader) Close() error { return r.src.Close() }

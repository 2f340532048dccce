package tier

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
)

// With a key, each chunk of an object is under AES-256-GCM, with its tag behind it. The key of an object is derived
// from that of the place, the name of the object, and the checksum of its content; the nonce is the number of the
// chunk. So the same nonce under the same key is the same content, and a chunk does not pass for another one.
const tagSize = 16

// errSealed means that bytes do not open: they changed, or the key is another one.
var errSealed = errors.New("it does not open with the key")

type sealer struct{ aead cipher.AEAD }

func newSealer(key []byte, name, sum string) *sealer {
	// These fail for keys of other lengths alone.
	derived, err := hkdf.Key(sha256.New, key, []byte(sum), "lazuli tier "+name, 32)
	if err != nil {
		panic(err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &sealer{aead}
}

func nonce(number int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), uint64(number))
}

// encrypted returns what is stored for the content of an extent, and its size.
func (o *object) encrypted(plain io.ReaderAt) (io.ReaderAt, int64, error) {
	if o.seal == nil {
		return plain, o.size, nil
	}
	chunks := (o.size + ChunkSize - 1) / ChunkSize
	return &sealedContent{o.seal, plain, o.size}, o.size + chunks*tagSize, nil
}

// sealedContent encrypts as it is read.
type sealedContent struct {
	seal  *sealer
	plain io.ReaderAt
	size  int64
}

func (s *sealedContent) ReadAt(p []byte, off int64) (n int, err error) {
	const sealedSize = ChunkSize + tagSize
	buf := make([]byte, ChunkSize, sealedSize)
	for n < len(p) {
		number := (off + int64(n)) / sealedSize
		from := number * ChunkSize
		if from >= s.size {
			return n, io.EOF
		}
		buf = buf[:min(ChunkSize, s.size-from)]
		if m, err := s.plain.ReadAt(buf, from); m < len(buf) {
			return n, err
		}
		// The block on the edge of two reads is encrypted twice, to the same bytes.
		out := s.seal.aead.Seal(buf[:0], nonce(number), buf, nil)
		skip := off + int64(n) - number*sealedSize
		if skip >= int64(len(out)) {
			return n, io.EOF
		}
		n += copy(p[n:], out[skip:])
	}
	return n, nil
}

// read fills p, which begins at a chunk and ends at the end of one, from what fetch gives.
func (s *sealer) read(off int64, p []byte, fetch func(off int64, p []byte) error) error {
	number := off / ChunkSize
	chunks := (len(p) + ChunkSize - 1) / ChunkSize
	in := make([]byte, len(p)+chunks*tagSize)
	if err := fetch(number*(ChunkSize+tagSize), in); err != nil {
		return err
	}
	for len(p) > 0 {
		n := min(ChunkSize, len(p))
		if _, err := s.aead.Open(p[:0], nonce(number), in[:n+tagSize], nil); err != nil {
			return errSealed
		}
		p, in, number = p[n:], in[n+tagSize:], number+1
	}
	return nil
}

// checkOf returns what tells a key from another one without saying anything of it; "" without a key.
func checkOf(key []byte, folder string) string {
	if key == nil {
		return ""
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("lazuli tier of " + folder))
	return hex.EncodeToString(h.Sum(nil))
}

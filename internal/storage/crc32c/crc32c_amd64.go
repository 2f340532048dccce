package crc32c

import "golang.org/x/sys/cpu"

// Every processor of the last ten years has both instructions.
var fast = cpu.X86.HasSSE42 && cpu.X86.HasPCLMULQDQ

const (
	word = 8 // bytes that one instruction takes
	// maxWords bounds the words of a chain in one call of chains, and so the table of powers.
	maxWords = 170
	// minWords is the number from which three chains pay.
	minWords = 6
)

// powers has, at index n, what moves a CRC past n words: x^(64n-33) modulo the polynomial, with the bits in the order
// of a CRC, in which the highest is x^0. The 33 are what the last two steps in chains add: the product of two reversed
// numbers is one place too low, and the instruction multiplies by x^32.
var powers = func() (t [2*maxWords + 1]uint32) {
	const polynomial = 0x82F63B78
	p := uint32(1) << 31
	for e := 0; e <= 2*maxWords*64-33; e++ {
		if (e+33)%64 == 0 {
			t[(e+33)/64] = p
		}
		// Times x.
		if p&1 != 0 {
			p = p>>1 ^ polynomial
		} else {
			p >>= 1
		}
	}
	return t
}()

func updateFast(sum uint32, p []byte) uint32 {
	sum = ^sum
	for len(p) >= 3*minWords*word {
		n := min(len(p)/(3*word), maxWords)
		sum = chains(sum, &p[0], n, powers[2*n], powers[n])
		p = p[3*n*word:]
	}
	if len(p) > 0 {
		sum = chain(sum, &p[0], len(p))
	}
	return ^sum
}

// chains updates a CRC, without the inversions at its ends, with 3 times n words, n at least 1. first and second are
// powers[2*n] and powers[n].
//
//go:noescape
func chains(sum uint32, p *byte, n int, first, second uint32) uint32

// chain updates a CRC, without the inversions at its ends, with n bytes, n at least 1.
//
//go:noescape
func chain(sum uint32, p *byte, n int) uint32

#include "textflag.h"

// func chains(sum uint32, p *byte, n int, first, second uint32) uint32
//
// The CRC of the words A, B, C, with the CRC of all before A as start, is
// (A moved past B and C) xor (B moved past C) xor C: CRC is linear. The instruction for one word takes 3 cycles until
// its result can be used, but another one can begin in each cycle: so the three advance together.
TEXT ·chains(SB), NOSPLIT, $0-36
	MOVL sum+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVL first+24(FP), R9
	MOVL second+28(FP), R10
	XORL BX, BX
	XORL DX, DX
	LEAQ (SI)(CX*8), DI
	LEAQ (DI)(CX*8), R8
	DECQ CX
	JZ   last

words:
	CRC32Q (SI), AX
	CRC32Q (DI), BX
	CRC32Q (R8), DX
	ADDQ   $8, SI
	ADDQ   $8, DI
	ADDQ   $8, R8
	DECQ   CX
	JNZ    words

last:
	// A and B times their powers have 63 bits, which are added to the last word of C: so the instruction for that word
	// also reduces them.
	CRC32Q    (SI), AX
	CRC32Q    (DI), BX
	MOVQ      AX, X0
	MOVQ      R9, X1
	PCLMULQDQ $0, X1, X0
	MOVQ      BX, X2
	MOVQ      R10, X3
	PCLMULQDQ $0, X3, X2
	PXOR      X2, X0
	MOVQ      X0, R11
	XORQ      (R8), R11
	CRC32Q    R11, DX
	MOVL      DX, ret+32(FP)
	RET

// func chain(sum uint32, p *byte, n int) uint32
TEXT ·chain(SB), NOSPLIT, $0-28
	MOVL sum+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ CX, DX
	SHRQ $3, DX
	JZ   rest

words:
	CRC32Q (SI), AX
	ADDQ   $8, SI
	DECQ   DX
	JNZ    words

rest:
	// The lowest three bits of n say which parts of a word are left.
	TESTQ $4, CX
	JZ    two
	CRC32L (SI), AX
	ADDQ  $4, SI

two:
	TESTQ $2, CX
	JZ    one
	CRC32W (SI), AX
	ADDQ  $2, SI

one:
	TESTQ $1, CX
	JZ    done
	CRC32B (SI), AX

done:
	MOVL AX, ret+24(FP)
	RET

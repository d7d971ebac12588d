package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The instructions of AVX512_BF16, which Go's assembler does not know, are written as bytes (Intel 64 and IA-32
// Architectures Software Developer's Manual, volume 2, section 2.7 and the instructions' pages). Operands are those of
// the assembler: registers Z0-Z31, memory disp(base) or disp(base)(index*scale).

// vdpbf16ps is dst[i] += src2[2i+1]*src3[2i+1] + src2[2i]*src3[2i]; src3 is a register or memory.
func (a *asm) vdpbf16ps(src3, src2, dst string) {
	a.evex("VDPBF16PS", 0x52, ppF3, false, src3, src2, dst)
}

// vdpbf16psBcst is vdpbf16ps with one pair of bfloat16 in memory for all lanes.
func (a *asm) vdpbf16psBcst(src3, src2, dst string) {
	a.evex("VDPBF16PS.BCST", 0x52, ppF3, true, src3, src2, dst)
}

// vcvtne2ps2bf16 rounds two vectors of float32: the lower half of dst is src3 (a register or memory), the upper src2.
func (a *asm) vcvtne2ps2bf16(src3, src2, dst string) {
	a.evex("VCVTNE2PS2BF16", 0x72, ppF2, false, src3, src2, dst)
}

// vcvtneps2bf16 rounds 16 float32 of src (Z register or memory) to the lower half of dst, named as a Z register.
func (a *asm) vcvtneps2bf16(src, dst string) {
	a.evex("VCVTNEPS2BF16", 0x72, ppF3, false, src, "Z0", dst)
}

// Mandatory-prefix codes of the EVEX pp field.
const (
	ppF3 = 2
	ppF2 = 3
)

// evex appends a 512-bit instruction of opcode map 0F38 with W = 0, without mask.
func (a *asm) evex(name string, opcode, pp byte, bcast bool, src3, src2, dst string) {
	d, s2 := vecNumber(dst), vecNumber(src2)
	rm := parseRM(src3)
	bit := func(n, b int) byte { return byte(^(n >> b) & 1) } // EVEX stores these inverted
	p0 := bit(d, 3)<<7 | bit(rm.index, 3)<<6 | bit(rm.base, 3)<<5 | bit(d, 4)<<4 | 2
	p1 := byte(^s2&15)<<3 | 4 | pp
	p2 := byte(0x40) | bit(s2, 4)<<3
	if bcast {
		p2 |= 0x10
	}
	unit := 64 // an 8-bit displacement counts operands
	if bcast {
		unit = 4
	}
	b := append([]byte{0x62, p0, p1, p2, opcode}, rm.encode(d, unit)...)
	var s []string
	for _, x := range b {
		s = append(s, fmt.Sprintf("BYTE $0x%02x", x))
	}
	fmt.Fprintf(&a.text, "\t%s // %s %s, %s, %s\n", strings.Join(s, "; "), name, src3, src2, dst)
}

// rm is the operand that may be memory. In a register operand, base and index hold bits 3 and 4 of its number where the
// encoding wants them.
type rm struct {
	memory      bool
	base, index int // general register numbers; index 4 (none): its bit 3 is clear
	scale, disp int
}

var rmPattern = regexp.MustCompile(`^(-?\d*)\((\w+)\)(?:\((\w+)\*(\d)\))?$`)

var gprNumber = map[string]int{
	"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SP": 4, "BP": 5, "SI": 6, "DI": 7, "R8": 8, "R9": 9,
	"R10": 10, "R11": 11, "R12": 12, "R13": 13, "R14": 14, "R15": 15,
}

func parseRM(s string) rm {
	m := rmPattern.FindStringSubmatch(s)
	if m == nil {
		n := vecNumber(s)
		return rm{base: n & 15, index: n >> 4 << 3}
	}
	r := rm{memory: true, index: 4, scale: 1}
	r.disp, _ = strconv.Atoi(m[1])
	var ok bool
	if r.base, ok = gprNumber[m[2]]; !ok {
		panic("no register " + m[2])
	}
	if m[3] != "" {
		if r.index, ok = gprNumber[m[3]]; !ok || m[3] == "SP" {
			panic("no index register " + m[3])
		}
		r.scale, _ = strconv.Atoi(m[4])
	}
	return r
}

// encode gives ModRM, SIB and displacement.
func (r rm) encode(reg, unit int) []byte {
	reg3 := byte(reg&7) << 3
	if !r.memory {
		return []byte{0xC0 | reg3 | byte(r.base&7)}
	}
	mod, disp := byte(0x80), []byte{byte(r.disp), byte(r.disp >> 8), byte(r.disp >> 16), byte(r.disp >> 24)}
	if q := r.disp / unit; r.disp%unit == 0 && q >= -128 && q <= 127 {
		mod, disp = 0x40, []byte{byte(q)}
	}
	if r.index == 4 && r.base&7 != 4 {
		return append([]byte{mod | reg3 | byte(r.base&7)}, disp...)
	}
	scale := map[int]byte{1: 0, 2: 1, 4: 2, 8: 3}[r.scale]
	return append([]byte{mod | reg3 | 4, scale<<6 | byte(r.index&7)<<3 | byte(r.base&7)}, disp...)
}

func vecNumber(s string) int {
	n, err := strconv.Atoi(s[1:])
	if err != nil || s[0] != 'Z' || n > 31 {
		panic("no vector register " + s)
	}
	return n
}

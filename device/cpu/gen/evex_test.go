package main

import (
	"strings"
	"testing"
)

// The right bytes come from the GNU assembler and LLVM's, which agree.
func TestEVEX(t *testing.T) {
	for _, c := range []struct {
		emit func(a *asm)
		want string
	}{
		{func(a *asm) { a.vdpbf16ps("Z1", "Z2", "Z3") }, "62 f2 6e 48 52 d9"},
		{func(a *asm) { a.vdpbf16ps("Z9", "Z18", "Z31") }, "62 42 6e 40 52 f9"},
		{func(a *asm) { a.vdpbf16ps("Z31", "Z7", "Z8") }, "62 12 46 48 52 c7"},
		{func(a *asm) { a.vdpbf16ps("64(SI)", "Z2", "Z3") }, "62 f2 6e 48 52 5e 01"},
		{func(a *asm) { a.vdpbf16ps("68(SI)", "Z2", "Z3") }, "62 f2 6e 48 52 9e 44 00 00 00"},
		{func(a *asm) { a.vdpbf16ps("-8192(R13)(R9*8)", "Z20", "Z16") }, "62 82 5e 40 52 44 cd 80"},
		{func(a *asm) { a.vdpbf16ps("8(SP)", "Z2", "Z3") }, "62 f2 6e 48 52 9c 24 08 00 00 00"},
		{func(a *asm) { a.vdpbf16ps("64(R12)", "Z2", "Z3") }, "62 d2 6e 48 52 5c 24 01"},
		{func(a *asm) { a.vdpbf16psBcst("12(DI)(BX*4)", "Z25", "Z11") }, "62 72 36 50 52 5c 9f 03"},
		{func(a *asm) { a.vdpbf16psBcst("1024(R10)", "Z25", "Z11") }, "62 52 36 50 52 9a 00 04 00 00"},
		{func(a *asm) { a.vcvtne2ps2bf16("Z1", "Z2", "Z30") }, "62 62 6f 48 72 f1"},
		{func(a *asm) { a.vcvtne2ps2bf16("128(AX)", "Z17", "Z5") }, "62 f2 77 40 72 68 02"},
		{func(a *asm) { a.vcvtneps2bf16("Z17", "Z5") }, "62 b2 7e 48 72 e9"},
	} {
		a := newAsm("test")
		start := a.text.Len()
		c.emit(a)
		line := strings.TrimSpace(a.text.String()[start:])
		code, name, _ := strings.Cut(line, " // ")
		if got := strings.NewReplacer("BYTE $0x", "", ";", "").Replace(code); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The committed assembly is what the generator writes.
func TestGenerated(t *testing.T) {
	if err := run("../kernel", true); err != nil {
		t.Error(err)
	}
}

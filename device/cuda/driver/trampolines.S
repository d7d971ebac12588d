//go:build linux && gpu && (amd64 || arm64)

// One trampoline for each line of symbols.h. A trampoline jumps through its own slot. At first the slot holds the slow
// path, which asks halfstep_cuda_resolve(name) for the function's address, keeps that in the slot, and goes there with every
// argument register as the caller left it. The trampolines are hidden, so that a driver library that calls itself through
// its own symbol table never meets them.

#if defined(__x86_64__)

.macro TRAMP name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
	endbr64
	jmp	*.Lslot\@(%rip)
.Lslow\@:
	endbr64
	leaq	.Lslot\@(%rip), %r11
	leaq	.Lname\@(%rip), %r10
	jmp	.Lcommon
	.size	\name, .-\name
	.pushsection .data.rel.local, "aw"
	.p2align 3
.Lslot\@:
	.quad	.Lslow\@
	.popsection
	.pushsection .rodata
.Lname\@:
	.asciz	"\name"
	.popsection
.endm

	.text
.Lcommon:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	pushq	%r9
	pushq	%rax
	pushq	%r11
	subq	$128, %rsp
	movups	%xmm0, (%rsp)
	movups	%xmm1, 16(%rsp)
	movups	%xmm2, 32(%rsp)
	movups	%xmm3, 48(%rsp)
	movups	%xmm4, 64(%rsp)
	movups	%xmm5, 80(%rsp)
	movups	%xmm6, 96(%rsp)
	movups	%xmm7, 112(%rsp)
	movq	%r10, %rdi
	call	halfstep_cuda_resolve
	movups	(%rsp), %xmm0
	movups	16(%rsp), %xmm1
	movups	32(%rsp), %xmm2
	movups	48(%rsp), %xmm3
	movups	64(%rsp), %xmm4
	movups	80(%rsp), %xmm5
	movups	96(%rsp), %xmm6
	movups	112(%rsp), %xmm7
	addq	$128, %rsp
	popq	%r11
	movq	%rax, (%r11)
	movq	%rax, %r11
	popq	%rax
	popq	%r9
	popq	%r8
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	popq	%rbp
	jmp	*%r11

#elif defined(__aarch64__)

.macro TRAMP name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 4
\name:
	hint	#34			// bti c
	adrp	x16, .Lslot\@
	ldr	x16, [x16, :lo12:.Lslot\@]
	br	x16
.Lslow\@:
	hint	#36			// bti j
	adrp	x16, .Lslot\@
	add	x16, x16, :lo12:.Lslot\@
	adrp	x17, .Lname\@
	add	x17, x17, :lo12:.Lname\@
	b	.Lcommon
	.size	\name, .-\name
	.pushsection .data.rel.local, "aw"
	.p2align 3
.Lslot\@:
	.quad	.Lslow\@
	.popsection
	.pushsection .rodata
.Lname\@:
	.asciz	"\name"
	.popsection
.endm

	.text
	.p2align 2
.Lcommon:
	stp	x29, x30, [sp, #-224]!
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	stp	x8, x16, [sp, #80]
	stp	q0, q1, [sp, #96]
	stp	q2, q3, [sp, #128]
	stp	q4, q5, [sp, #160]
	stp	q6, q7, [sp, #192]
	mov	x0, x17
	bl	halfstep_cuda_resolve
	mov	x17, x0
	ldp	x8, x16, [sp, #80]
	str	x17, [x16]
	mov	x16, x17
	ldp	q0, q1, [sp, #96]
	ldp	q2, q3, [sp, #128]
	ldp	q4, q5, [sp, #160]
	ldp	q6, q7, [sp, #192]
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldp	x29, x30, [sp], #224
	br	x16

#else
#error "no trampolines for this architecture"
#endif

#define X(name) TRAMP name;
#include "symbols.h"

	.section .note.GNU-stack, "", %progbits

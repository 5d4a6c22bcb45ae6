//! Inline assembly: what the compiler must not see through, and the one instruction that it does not offer.

use core::arch::asm;

use aya_ebpf::bindings::xdp_md;

/// The same value, of which the optimiser knows nothing: it can neither fold a check of it away nor move a sum.
#[inline(always)]
pub fn opaque(mut value: usize) -> usize {
    // SAFETY: a move of a register to itself has no effect.
    unsafe { asm!("{0} = {0}", inout(reg) value, options(pure, nomem, nostack, preserves_flags)) };
    value
}

/// The address of the byte at `offset` of a packet, and of its end.
///
/// # Safety
/// `context` is that of this run of the program. The addresses are good until the packet's ends move.
#[inline(always)]
pub unsafe fn place_and_end(context: *mut xdp_md, offset: usize) -> (usize, usize) {
    let (place, end);
    // SAFETY: two loads of the context, which the caller says is valid, and a sum. Not pure: the ends may move between calls.
    unsafe {
        asm!(
            "{place} = *(u32 *)({context} + 0)",
            "{place} += {offset}",
            "{end} = *(u32 *)({context} + 4)",
            context = in(reg) context,
            offset = in(reg) offset,
            place = out(reg) place,
            end = lateout(reg) end,
            options(readonly, nostack, preserves_flags)
        );
    }
    (place, end)
}

/// The length of a packet. One subtraction: the verifier refuses a negated pointer.
///
/// # Safety
/// As for [`place_and_end`].
#[inline(always)]
pub unsafe fn length(context: *mut xdp_md) -> usize {
    let length;
    // SAFETY: as above.
    unsafe {
        asm!(
            "{start} = *(u32 *)({context} + 0)",
            "{length} = *(u32 *)({context} + 4)",
            "{length} -= {start}",
            context = in(reg) context,
            start = out(reg) _,
            length = lateout(reg) length,
            options(readonly, nostack, preserves_flags)
        );
    }
    length
}

/// Gives the five argument registers a value after a helper was called, which leaves them without one.
///
/// Where a value is unset on some way (an error's, where a packet's would be), the compiler copies whatever the register
/// holds and never uses it; the verifier refuses the copy of a register that holds nothing.
#[inline(always)]
pub fn settle_registers() {
    // SAFETY: the registers are declared as written; nothing else happens. Not pure, so that it stays behind the call.
    unsafe {
        asm!(
            "r1 = 0",
            "r2 = 0",
            "r3 = 0",
            "r4 = 0",
            "r5 = 0",
            out("r1") _,
            out("r2") _,
            out("r3") _,
            out("r4") _,
            out("r5") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Stores `new` at `place` if it holds `old`; whether it did. A full barrier.
///
/// # Safety
/// `place` points to eight bytes of a map value, aligned to eight.
#[inline(always)]
pub unsafe fn compare_exchange(place: *mut u64, old: u64, new: u64) -> bool {
    let mut found = old;
    // SAFETY: the caller says that `place` is a word of a map value; the instruction is one of BPF v3.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({place} + 0, r0, {new})",
            place = in(reg) place,
            new = in(reg) new,
            inout("r0") found,
            options(nostack, preserves_flags),
        );
    }
    found == old
}

//! How soon a thread goes on once it may.
//!
//! Where there are more threads than cores, a thread that communicates shares its core with one that
//! computes. It has little to do and often, so it should go on at once when what it waits for has come;
//! the system's scheduler otherwise lets the other finish its slice, some milliseconds, in which nothing
//! is under way. Linux (6.12 and later) takes a wish for shorter slices from any thread, and lets a woken
//! thread of short slices go before one of long ones. It is a wish: where it is refused, or there is no
//! such call, everything runs as before.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "two calls of the system"))]

use std::cell::Cell;

/// What a thread has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Urgency {
    /// It computes, for long.
    Usual,
    /// It communicates: little, and as soon as it can.
    Prompt,
}

thread_local! {
    static WISHED: Cell<Urgency> = const { Cell::new(Urgency::Usual) };
}

/// Says what the calling thread has to do from now on.
pub(crate) fn set(urgency: Urgency) {
    if WISHED.replace(urgency) != urgency {
        wish(urgency);
    }
}

#[cfg(target_os = "linux")]
fn wish(urgency: Urgency) {
    /// The shortest slice that Linux gives, in nanoseconds; 0 stands for its own choice.
    const SHORTEST: u64 = 100_000;
    let slice = match urgency {
        Urgency::Usual => 0,
        Urgency::Prompt => SHORTEST,
    };
    let size = std::mem::size_of::<Attributes>();
    let mut attributes = Attributes::default();
    // SAFETY: the call writes at most `size` bytes to a struct of that size and layout, of this thread (0).
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if got == 0 {
        attributes.runtime = slice;
        // SAFETY: the call reads the struct, whose size it holds.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

#[cfg(not(target_os = "linux"))]
fn wish(_: Urgency) {}

/// `struct sched_attr` of Linux, as far as its first version goes.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

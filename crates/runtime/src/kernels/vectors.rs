//! Loops with the widest vectors of the machine.
//!
//! The workspace is compiled for every x86-64 machine, whose vectors hold four `f32`. Where the machine
//! that runs has AVX2, a second copy of a loop, compiled for it, works on eight. Both copies do the same
//! operations in the same order (nothing is fused), so results are the same to the last bit.

/// Defines a function of which there are two copies. What it calls profits only if it is inlined.
macro_rules! vectorised {
    (
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident<$($generic:ident: $bound:path),*>(
            $($argument:ident: $of:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $(#[$doc])*
        $visibility fn $name<$($generic: $bound),*>($($argument: $of),*) $(-> $result)? {
            #[inline(always)]
            fn plain<$($generic: $bound),*>($($argument: $of),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn with_avx2<$($generic: $bound),*>($($argument: $of),*) $(-> $result)? {
                    plain::<$($generic),*>($($argument),*)
                }
                if is_x86_feature_detected!("avx2") {
                    #[expect(unsafe_code, reason = "a function for wider vectors may be called where they are")]
                    // SAFETY: the function asks for nothing but AVX2, which the machine has.
                    return unsafe { with_avx2::<$($generic),*>($($argument),*) };
                }
            }
            plain::<$($generic),*>($($argument),*)
        }
    };
}
pub(super) use vectorised;

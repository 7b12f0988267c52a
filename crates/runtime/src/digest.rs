//! Numbers by which ranks find out whether they have the same.

/// A number for texts or bytes that ranks must have in common: others have, as good as surely, another one (FNV-1a, 64 bits).
pub fn digest<P: AsRef<[u8]>>(parts: &[P]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.as_ref().iter().copied().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

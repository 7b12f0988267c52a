//! Whether the reference fits in memory. (A session asks by itself before it sets memory aside.)

use crate::render::bytes;
use shardweave_compiler::diagnostic::{Code, Diagnostic};
use shardweave_compiler::program::{Program, Sizes};
use shardweave_runtime::memory::available;

/// Bytes of an element while the reference computes it.
const WIDE: u64 = 8;

/// An error if the whole values on one device need more memory than there is.
pub fn reference_fits(program: &Program, sizes: &Sizes) -> Result<(), Diagnostic> {
    let need = reference_bytes(program, sizes);
    match available() {
        Some(available) if need > available => {
            let message = format!(
                "the program needs {} on one device, but {} of memory are available",
                bytes(need),
                bytes(available)
            );
            let help = "run it without `--check` on several devices, or take smaller sizes";
            Err(Diagnostic::general(Code::OutOfMemory, message).help(help))
        }
        _ => Ok(()),
    }
}

/// All needed values stay; beside them the operands and the result of one operation are held wide.
fn reference_bytes(program: &Program, sizes: &Sizes) -> u64 {
    let count = |value| {
        let dims = program.values()[value].dims.iter();
        dims.fold(1_u64, |count, &dim| count.saturating_mul(sizes[dim]))
    };
    let needed = program.needed();
    let (mut stay, mut wide) = (0_u64, 0_u64);
    for (value, _) in needed.iter().filter(|(_, needed)| **needed) {
        stay = stay.saturating_add(count(value).saturating_mul(program.values()[value].dtype.size()));
        let operands = program.apply(value).into_iter().flat_map(|apply| apply.values());
        let elements = operands.fold(count(value), |sum, operand| sum.saturating_add(count(operand)));
        wide = wide.max(elements.saturating_mul(WIDE));
    }
    stay.saturating_add(wide)
}

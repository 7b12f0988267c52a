//! Whether the reference fits in memory. (A session asks by itself before it sets memory aside.)

use crate::render::bytes;
use shardweave_compiler::diagnostic::{Code, Diagnostic};
use shardweave_compiler::program::{Program, Sizes};

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
        let dims = program.values[value].dims.iter();
        dims.fold(1_u64, |count, &dim| count.saturating_mul(sizes[dim]))
    };
    let needed = program.needed();
    let (mut stay, mut wide) = (0_u64, 0_u64);
    for (value, _) in needed.iter().filter(|(_, needed)| **needed) {
        stay = stay.saturating_add(count(value).saturating_mul(program.values[value].dtype.size()));
        let operands = program.apply(value).into_iter().flat_map(|apply| apply.values());
        let elements = operands.fold(count(value), |sum, operand| sum.saturating_add(count(operand)));
        wide = wide.max(elements.saturating_mul(WIDE));
    }
    stay.saturating_add(wide)
}

/// Available memory and free swap, where the system says.
fn available() -> Option<u64> {
    meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn meminfo(text: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kilobytes.checked_mul(1024)
    };
    Some(field("MemAvailable")?.saturating_add(field("SwapFree").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_and_free_swap_count() {
        let text = "MemTotal:  100 kB\nMemAvailable:   40 kB\nSwapTotal:  9 kB\nSwapFree:     2 kB\n";
        assert_eq!(meminfo(text), Some(42 * 1024));
        assert_eq!(meminfo("MemTotal: 100 kB\n"), None);
        assert_eq!(meminfo("MemAvailable: lots\n"), None);
    }
}

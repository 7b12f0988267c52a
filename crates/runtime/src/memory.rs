//! How much memory there is, so that a plan that cannot fit is refused before anything runs, and not
//! stopped by the system in the middle.

use crate::execute::RunError;

/// Bytes that could be had now, as far as the system says.
pub(crate) fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    kibibytes(&text, "MemAvailable:")?.checked_mul(1024)
}

/// The number on the line that starts with `key`.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Whether so many arenas and the outputs fit.
pub(crate) fn check(
    per_device: u64,
    devices: u64,
    outputs: u64,
    available: Option<u64>,
) -> Result<(), RunError> {
    let needed = per_device.checked_mul(devices).and_then(|bytes| bytes.checked_add(outputs));
    let fits = needed.is_some_and(|needed| available.is_none_or(|available| needed <= available));
    if fits { Ok(()) } else { Err(RunError::OutOfMemory { per_device, devices, available }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_meminfo_is_read() {
        let text = "MemTotal:       24690000 kB\nMemFree:         1000 kB\nMemAvailable:   23000 kB\n";
        assert_eq!(kibibytes(text, "MemAvailable:"), Some(23_000));
        assert_eq!(kibibytes(text, "SwapFree:"), None);
        assert_eq!(kibibytes("MemAvailable: many kB", "MemAvailable:"), None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(check(100, 4, 8, Some(408)), Ok(()));
        let refused = |available| Err(RunError::OutOfMemory { per_device: 100, devices: 4, available });
        assert_eq!(check(100, 4, 9, Some(408)), refused(Some(408)));
        assert!(check(u64::MAX, 2, 0, None).is_err());
        assert_eq!(check(u64::MAX, 1, 0, None), Ok(()));
    }
}

//! How much memory there is, so that a plan that cannot fit is refused before anything runs, and not
//! stopped by the system in the middle.

/// Bytes that could be had now without swapping, as far as the system says.
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    kibibytes(&text, "MemAvailable:")?.checked_mul(1024)
}

/// The number on the line that starts with `key`.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
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
}

//! Whether what a plan needs fits in memory.

use crate::execute::RunError;

/// Whether so many arenas and the outputs fit.
pub(super) fn check(
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
    fn what_does_not_fit_is_refused() {
        assert_eq!(check(100, 4, 8, Some(408)), Ok(()));
        let refused = |available| Err(RunError::OutOfMemory { per_device: 100, devices: 4, available });
        assert_eq!(check(100, 4, 9, Some(408)), refused(Some(408)));
        assert!(check(u64::MAX, 2, 0, None).is_err());
        assert_eq!(check(u64::MAX, 1, 0, None), Ok(()));
    }
}

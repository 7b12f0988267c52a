//! The one cost: `flops / F + messages x latency + bytes / B`.
//!
//! The constants are fixed, so that a plan is the same on every machine; `--link` and `--flops` give
//! others. Nothing is measured.

use crate::transfer::Traffic;

/// What computing and sending are taken to cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Operations of one device in a microsecond.
    pub flops_per_us: f64,
    /// Microseconds before the first byte of a message arrives.
    pub latency_us: f64,
    /// Bytes that a device sends in a microsecond.
    pub bytes_per_us: f64,
}

impl Default for Cost {
    /// 50 GFLOP/s a device, 2 us a message, 8 GB/s a link: one core of a server and its memory.
    fn default() -> Cost {
        Cost { flops_per_us: 50_000.0, latency_us: 2.0, bytes_per_us: 8_000.0 }
    }
}

impl Cost {
    /// Microseconds for so much work of one device.
    pub fn time_us(&self, flops: u128, messages: u64, bytes: u64) -> f64 {
        flops as f64 / self.flops_per_us
            + messages as f64 * self.latency_us
            + bytes as f64 / self.bytes_per_us
    }

    /// Microseconds for a whole move; every one of its steps pays its messages.
    pub fn moving_us(&self, traffic: &Traffic, steps: u64) -> f64 {
        self.time_us(0, traffic.messages.saturating_mul(steps), traffic.bytes_per_device)
    }
}

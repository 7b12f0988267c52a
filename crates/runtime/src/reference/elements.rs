//! What operations do to single elements.

use shardweave_compiler::op::{Map, Zip};
use std::f64::consts::{PI, SQRT_2};

/// A float.
pub(super) fn map_float(map: Map, x: f64) -> f64 {
    match map {
        Map::Neg => -x,
        Map::Abs => x.abs(),
        Map::Exp => x.exp(),
        Map::Log => x.ln(),
        Map::Sqrt => x.sqrt(),
        Map::Rsqrt => 1.0 / x.sqrt(),
        Map::Square => x * x,
        Map::Sin => x.sin(),
        Map::Cos => x.cos(),
        Map::Tanh => x.tanh(),
        Map::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Map::Relu => maximum(x, 0.0),
        Map::Silu => x / (1.0 + (-x).exp()),
        // `1 + erf u` is `erfc -u` and `1 + tanh u` is `2 / (1 + e^-2u)`, which keep their digits near 0.
        Map::Gelu => 0.5 * x * libm::erfc(-x / SQRT_2),
        Map::GeluTanh => x / (1.0 + (-2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).exp()),
        Map::Not => unreachable!("`not` is for bools"),
    }
}

/// An integer or a bool.
pub(super) fn map_integer(map: Map, x: i64) -> i64 {
    match map {
        Map::Neg => x.wrapping_neg(),
        Map::Abs => x.wrapping_abs(),
        Map::Square => x.wrapping_mul(x),
        Map::Relu => x.max(0),
        Map::Not => i64::from(x == 0),
        other => unreachable!("{other:?} is for floats"),
    }
}

/// Two floats.
pub(super) fn zip_floats(zip: Zip, a: f64, b: f64) -> f64 {
    match zip {
        Zip::Add => a + b,
        Zip::Sub => a - b,
        Zip::Mul => a * b,
        Zip::Div => a / b,
        Zip::Maximum => maximum(a, b),
        Zip::Minimum => minimum(a, b),
        Zip::Pow => a.powf(b),
        other => unreachable!("{other:?} gives no float"),
    }
}

/// Two integers or bools.
pub(super) fn zip_integers(zip: Zip, a: i64, b: i64) -> i64 {
    match zip {
        Zip::Add => a.wrapping_add(b),
        Zip::Sub => a.wrapping_sub(b),
        Zip::Mul => a.wrapping_mul(b),
        Zip::Maximum => a.max(b),
        Zip::Minimum => a.min(b),
        Zip::And => i64::from(a != 0 && b != 0),
        Zip::Or => i64::from(a != 0 || b != 0),
        other => unreachable!("{other:?} is for floats or a comparison"),
    }
}

/// Two elements of any type.
pub(super) fn compare<T: PartialOrd>(zip: Zip, a: T, b: T) -> bool {
    match zip {
        Zip::Less => a < b,
        Zip::LessEqual => a <= b,
        Zip::Greater => a > b,
        Zip::GreaterEqual => a >= b,
        Zip::Equal => a == b,
        Zip::NotEqual => a != b,
        other => unreachable!("{other:?} is no comparison"),
    }
}

/// The larger; NaN if one is NaN; 0 rather than -0.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    match a.partial_cmp(&b) {
        None => f64::NAN,
        Some(_) => {
            if a.total_cmp(&b).is_gt() {
                a
            } else {
                b
            }
        }
    }
}

/// The smaller; NaN if one is NaN; -0 rather than 0.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    match a.partial_cmp(&b) {
        None => f64::NAN,
        Some(_) => {
            if a.total_cmp(&b).is_lt() {
                a
            } else {
                b
            }
        }
    }
}

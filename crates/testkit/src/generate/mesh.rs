//! Meshes: one device, primes, more axes, permuted and partial sets of devices.

use super::dice::Dice;

/// Axis sizes, the plainest first.
const SHAPES: &[&[u64]] =
    &[&[2], &[3], &[4], &[2, 2], &[1], &[5], &[2, 3], &[3, 2], &[8], &[1, 4], &[4, 1], &[2, 2, 2], &[7]];

/// A mesh that is drawn.
#[derive(Clone, Debug)]
pub struct MeshDraft {
    /// Its name.
    pub name: String,
    /// Its axes.
    pub axes: Vec<(String, u64)>,
    devices: Option<Vec<u64>>,
}

impl MeshDraft {
    /// The `number`th mesh of a case.
    pub fn new(number: usize, bytes: &[u8]) -> MeshDraft {
        let mut dice = Dice::new(bytes);
        let shape = SHAPES[dice.below(SHAPES.len())];
        let axes = shape.iter().enumerate().map(|(at, &size)| (format!("t{number}{at}"), size)).collect();
        let count: u64 = shape.iter().product();
        let listed = dice.below(4);
        let shift = dice.below(4) as u64;
        let turned = |n: u64| (n + shift) % count;
        let devices = match listed {
            0 | 1 => None,
            2 => Some((0..count).map(turned).collect()),
            _ => Some((0..count).rev().map(|n| n + shift).collect()),
        };
        MeshDraft { name: format!("m{number}"), axes, devices }
    }

    /// The mesh as it stands in a file.
    pub fn text(&self) -> String {
        let axes: Vec<String> = self.axes.iter().map(|(name, size)| format!("{name} = {size}")).collect();
        let devices = self.devices.as_ref().map(|ids| format!(" devices {ids:?}")).unwrap_or_default();
        format!("mesh {} {{ {} }}{devices}", self.name, axes.join(", "))
    }
}

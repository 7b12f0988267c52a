//! What a placement needs of sizes: explicit pieces that add up, and no cut into too many blocks.

use super::Placement;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote};
use crate::layout::{CeilPieces, Factor, Layout};
use crate::program::{Program, Sizes};
use std::collections::BTreeSet;

/// A device holds at most so many separate blocks along a dim, and a stream has at most so many steps.
pub const MOST_BLOCKS_OF_DIM: u64 = 1 << 20;

/// All devices together hold at most so many separate blocks along a dim: planning looks at each.
const MOST_BLOCKS_OF_DEVICES: u64 = 1 << 26;

/// Checks every entry of a value whose dims have sizes.
pub fn verify_sizes(program: &Program, placement: &Placement, sizes: &Sizes) -> Diagnostics {
    let mut found = Diagnostics::new();
    for entry in &placement.entries {
        let value = &program.values[entry.value];
        let sized = |&dim| Some((program.dims[dim].name.as_str(), sizes.get(dim)?));
        let dims = value.dims.iter().map(sized);
        verify_cuts(&value.name, dims, &entry.layout, entry.span, &mut found);
    }
    found
}

/// Checks the layout of a value by itself: `dims` are its names and sizes.
pub fn verify_layout(value: &str, dims: &[(String, u64)], layout: &Layout) -> Diagnostics {
    let mut found = Diagnostics::new();
    let dims = dims.iter().map(|(name, size)| Some((name.as_str(), *size)));
    verify_cuts(value, dims, layout, Span::default(), &mut found);
    found
}

fn verify_cuts<'a>(
    value: &'a str,
    dims: impl Iterator<Item = Option<(&'a str, u64)>>,
    layout: &'a Layout,
    span: Span,
    found: &mut Diagnostics,
) {
    for (sized, cuts) in dims.zip(layout.cuts()) {
        let Some((dim, size)) = sized else { continue };
        if let Err(mistake) = (Walk { value, dim, layout, span }).dim(cuts, size) {
            found.push(mistake);
        }
    }
}

/// Walks over the factors of one dim.
struct Walk<'a> {
    value: &'a str,
    dim: &'a str,
    layout: &'a Layout,
    span: Span,
}

impl Walk<'_> {
    /// State: the different sizes that a block can have after the factors so far, and how many blocks a
    /// device can hold. Neither can be more than [`MOST_BLOCKS_OF_DIM`] times the axes' lengths.
    fn dim(&self, cuts: &[Factor], size: u64) -> Result<(), Diagnostic> {
        let layout = self.layout;
        let mut pieces = BTreeSet::from([size]);
        let (mut blocks, mut coordinates): (u64, u64) = (1, 1);
        for factor in cuts {
            // What comes before an axis is cut for every device by itself.
            coordinates =
                coordinates.saturating_mul(factor.axis().map_or(1, |axis| layout.mesh().size(axis)));
            let of_devices = blocks.saturating_mul(coordinates).min(size);
            if factor.axis().is_some() && blocks > 1 && of_devices > MOST_BLOCKS_OF_DEVICES {
                return Err(self.too_many(factor, size, MOST_BLOCKS_OF_DEVICES));
            }
            let count = match factor {
                Factor::Axis(axis) => layout.mesh().size(*axis),
                // Users do not write it.
                Factor::Peer(peer) => layout.mesh().size(peer.axis),
                Factor::Local(count) | Factor::Step(count, _) => *count,
                Factor::Stream(steps) => steps.count(size),
                Factor::Sizes(_, sizes) => {
                    self.sum(factor, sizes, &pieces)?;
                    pieces = sizes.iter().copied().collect();
                    continue;
                }
            };
            if factor.axis().is_none() {
                let most = pieces.last().copied().unwrap_or(0).max(1).min(count);
                blocks = blocks.saturating_mul(most);
                if blocks > MOST_BLOCKS_OF_DIM {
                    return Err(self.too_many(factor, size, MOST_BLOCKS_OF_DIM));
                }
            }
            pieces = pieces
                .into_iter()
                .flat_map(|piece| CeilPieces::new(piece, count).different_sizes())
                .collect();
        }
        Ok(())
    }

    fn sum(&self, factor: &Factor, sizes: &[u64], pieces: &BTreeSet<u64>) -> Result<(), Diagnostic> {
        let sum: u64 = sizes.iter().fold(0, |sum, &size| sum.saturating_add(size));
        let Some(piece) = pieces.iter().find(|&&piece| piece != sum) else { return Ok(()) };
        let (value, dim) = (quote(self.value), quote(self.dim));
        let shown = self.layout.factor_text(factor);
        let message = format!(
            "{} cuts the dim {dim} of {value} into pieces that add up to {sum}, but a piece of size {piece} is cut there",
            quote(&shown)
        );
        let mistake = Diagnostic::at(Code::PieceSizes, self.span, message);
        Err(mistake.help(match pieces.len() {
            1 => format!("give sizes that add up to {piece}"),
            _ => {
                "explicit sizes cut every piece that the cuts before them left, so those must be equal".into()
            }
        }))
    }

    fn too_many(&self, factor: &Factor, size: u64, most: u64) -> Diagnostic {
        let message = format!(
            "{} cuts the dim {} of {}, of size {size}, into more than {most} blocks{}",
            quote(&self.layout.factor_text(factor)),
            quote(self.dim),
            quote(self.value),
            if most == MOST_BLOCKS_OF_DEVICES { " of all devices together" } else { "" }
        );
        Diagnostic::at(Code::BadCut, self.span, message).help("use fewer blocks or steps")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Mesh;
    use std::sync::Arc;

    /// What is found wrong with `x: ENTRY`, x[s, t], on a mesh dp = 2, tp = 4.
    fn check(entry: &str, s: u64) -> Result<(), String> {
        check_on([2, 4], entry, s)
    }

    /// The same on a mesh of other sizes.
    fn check_on([dp, tp]: [u64; 2], entry: &str, s: u64) -> Result<(), String> {
        let program: Program = "program p {\ninput x: f32[s, t=7]\noutput x\n}".parse().expect("a program");
        let mesh = Mesh::new("grid", [("dp".into(), dp), ("tp".into(), tp)], None).expect("a mesh");
        let text = format!("placement q for p on grid {{\nx: {entry}\n}}");
        let placement = super::super::parse_placement(&text, &program, &[Arc::new(mesh)]).expect(entry);
        let sizes = Sizes::bind(&program, [("s", s)]).expect("sizes");
        verify_sizes(&program, &placement, &sizes).finish(()).map_err(|found| found.to_string())
    }

    #[test]
    fn explicit_sizes_add_up_to_every_piece_that_they_cut() {
        assert_eq!(check("s/tp(5, 3, 4, 4)", 16), Ok(()));
        assert_eq!(check("s/dp/tp(5, 3, 0, 0), t/local(3)", 16), Ok(()));
        assert_eq!(check("s/dp(3, 3)/tp(0, 3, 0, 0)", 6), Ok(()));
        for (entry, size, expected) in [
            ("s/tp(5, 3, 4, 4)", 17, "add up to 16, but a piece of size 17 is cut there"),
            ("s/dp/tp(5, 3, 0, 0)", 15, "add up to 8, but a piece of size 7 is cut there"),
            ("t/local(3)/tp(1, 1, 1, 0)", 1, "add up to 3, but a piece of size 1 is cut there"),
        ] {
            let found = check(entry, size).expect_err(entry);
            assert!(found.starts_with("error[E0406]") && found.contains(expected), "{found}");
        }
    }

    #[test]
    fn blocks_are_counted_as_they_are_and_not_as_they_are_written() {
        assert_eq!(check("s/local(18446744073709551615)", 1000), Ok(()));
        assert_eq!(check("s/stream, t/local(1000000000)", 1 << 20), Ok(()));
        assert_eq!(check("s/local(1048576)/tp", 1 << 30), Ok(()));
        for (entry, size) in [("s/stream", (1 << 20) + 1), ("s/local(1024)/stream(1025)", 1 << 30)] {
            let found = check(entry, size).expect_err(entry);
            assert!(found.starts_with("error[E0407]"), "{found}");
        }
    }

    #[test]
    fn blocks_of_all_devices_are_counted_where_axes_cut_them() {
        let many = |entry: &str, s: u64| check_on([256, 256], entry, s);
        assert_eq!(many("s/dp/tp/local(1048576)", 1 << 40), Ok(()));
        assert_eq!(many("s/local(1048576)/dp/tp", 1 << 20), Ok(()));
        assert_eq!(many("s/local(1024)/dp/tp", 1 << 40), Ok(()));
        let found = many("s/local(1048576)/dp/tp", 1 << 40).expect_err("they are 2^36");
        assert!(found.starts_with("error[E0407]") && found.contains("blocks of all devices"), "{found}");
    }
}

//! Layouts and placements: cuts of any depth, given sizes, blocks, streams, parts, other meshes, ways to
//! overlap.

use super::dice::Dice;
use super::mesh::MeshDraft;
use super::program::{Draft, Known};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::placement::Overlap;
use std::collections::BTreeSet;

/// A placement; entries that do not read are left out. One that pins how steps overlap comes twice, the
/// second time with nothing that overlaps.
pub fn placement(
    name: &str,
    draft: &Draft,
    meshes: &[MeshDraft],
    entries: &[[u8; 16]],
    before: &str,
) -> String {
    let home = &meshes[0];
    let head = format!("placement {name} for p on {} {{\n", home.name);
    let mut lines = String::new();
    let mut apart = String::new();
    let mut placed = BTreeSet::new();
    for bytes in entries {
        let mut dice = Dice::new(bytes);
        let Some(value) = dice.pick_late(draft.values()) else { continue };
        if placed.contains(&value.name) {
            continue;
        }
        let mesh = if dice.one_in(4) { dice.pick(meshes).unwrap_or(home) } else { home };
        let on = if mesh.name == home.name { String::new() } else { format!(" on {}", mesh.name) };
        let via = if dice.one_in(3) { dice.pick(&Overlap::ALL) } else { None };
        let layout = layout(&mut dice, value, mesh, via);
        let line = |via: Option<&Overlap>| {
            let via = via.map(|way| format!(" via {}", way.name())).unwrap_or_default();
            format!("  {}: {layout}{on}{via}\n", value.name)
        };
        let (_, found) = parse_file(&format!("{before}{head}{lines}{}}}\n", line(via)), &[]);
        if found.is_empty() {
            placed.insert(value.name.clone());
            lines.push_str(&line(via));
            apart.push_str(&line(via.map(|_| &Overlap::None)));
        }
    }
    let pinned = format!("{head}{lines}}}\n");
    if lines == apart {
        return pinned;
    }
    format!("{pinned}placement {name}_apart for p on {} {{\n{apart}}}\n", home.name)
}

/// One layout of a value; with steps, if they are to overlap.
fn layout(dice: &mut Dice<'_>, value: &Known, mesh: &MeshDraft, via: Option<&Overlap>) -> String {
    let ndim = value.dims.len();
    let mut cuts = vec![String::new(); ndim];
    if via.is_some()
        && let Some(cut) = cuts.get_mut(dice.below(ndim))
    {
        cut.push_str(["/stream", "/stream(2)", "/stream(3)", "/stream(4)"][dice.below(4)]);
    }
    let mut parts: Vec<String> = Vec::new();
    let mut axes: Vec<&(String, u64)> = mesh.axes.iter().collect();
    while !axes.is_empty() {
        let (axis, length) = axes.remove(dice.below(axes.len()));
        // A dim (the first choice is the first dim), parts, or nothing.
        let use_of = dice.below(ndim * 2 + 2);
        if use_of >= ndim * 2 {
            if use_of == ndim * 2 {
                let combine = ["", ", max", ", min", ", prod"][dice.below(4)];
                parts.push(format!("partial({axis}{combine})"));
            }
            continue;
        }
        let dim = use_of % ndim;
        blocks(dice, &mut cuts[dim]);
        if cuts[dim].is_empty() && dice.one_in(6) {
            let sizes = pieces(dice, value.dims[dim].1, *length);
            cuts[dim].push_str(&format!("/{axis}({sizes})"));
        } else {
            cuts[dim].push_str(&format!("/{axis}"));
        }
    }
    for cut in &mut cuts {
        blocks(dice, cut);
    }
    let names = value.dims.iter().map(|(name, _)| name);
    let cuts = names.zip(&cuts).filter(|(_, cut)| !cut.is_empty()).map(|(name, cut)| format!("{name}{cut}"));
    let all: Vec<String> = cuts.chain(parts).collect();
    if all.is_empty() { "replicated".into() } else { all.join(", ") }
}

/// Now and then blocks that stay on the device, or steps.
fn blocks(dice: &mut Dice<'_>, cut: &mut String) {
    let chosen = dice.below(24);
    match chosen {
        18 | 19 => cut.push_str("/local(2)"),
        20 => cut.push_str("/local(3)"),
        21 => cut.push_str("/stream(2)"),
        22 => cut.push_str("/stream(3)"),
        23 => cut.push_str("/stream"),
        _ => {}
    }
}

/// A size divided into so many pieces, some of them empty.
fn pieces(dice: &mut Dice<'_>, size: u64, count: u64) -> String {
    let mut rest = size;
    let mut sizes: Vec<String> = Vec::new();
    for piece in 0..count {
        let size = if piece + 1 == count { rest } else { dice.below(rest as usize + 1) as u64 };
        rest -= size;
        sizes.push(size.to_string());
    }
    sizes.join(", ")
}

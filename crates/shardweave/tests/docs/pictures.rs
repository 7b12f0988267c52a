//! Pictures of pieces and of moves, drawn from the layouts.

use shardweave::compiler::id::Id;
use shardweave::compiler::instr::TensorType;
use shardweave::compiler::layout::{IndexSet, Layout};
use shardweave::compiler::mesh::DeviceId;
use shardweave::compiler::propagate::typed;
use shardweave::compiler::transfer::Traffic;
use shardweave::{Placement, Program, Sizes, parse_file};
use std::fmt::Write;

/// Draws a `pieces` block: each line is a layout with what every device holds of the first dim.
///
/// ```text
/// mesh line { tp = 4 }
/// x: f32[s=5]
///
/// s/tp            0 1 | 2 3 | 4 | -
/// ```
pub fn pieces(body: &str) -> Result<String, String> {
    let (scene, drawn) = body.split_once("\n\n").ok_or("no empty line behind the value")?;
    let layouts: Vec<&str> = drawn.lines().map(|line| line.split("  ").next().unwrap_or(line)).collect();
    let width = layouts.iter().map(|layout| layout.len()).max().unwrap_or(0) + 4;
    let mut text = format!("{scene}\n\n");
    for layout in layouts {
        let scene = Scene::new(scene, layout, layout)?;
        let [source, _] = scene.layouts();
        let devices = (0..source.mesh().device_bound()).map(|device| {
            let held = source.piece_of(&scene.dims(), DeviceId::new(device as usize));
            held.map_or_else(|| "-".into(), |held| indices(&held[0]))
        });
        let picture = devices.collect::<Vec<_>>().join(" | ");
        writeln!(text, "{layout:width$}{picture}").expect("a string takes any text");
    }
    Ok(text)
}

fn indices(set: &IndexSet) -> String {
    let all: Vec<String> = set.iter().map(|index| index.to_string()).collect();
    if all.is_empty() { "-".into() } else { all.join(" ") }
}

/// Draws a `move` block: what moves between two layouts, and what every device holds before and after.
///
/// ```text
/// mesh line { tp = 2 }
/// x: f32[s=2]
/// s/tp -> replicated
///
/// all_gather over tp in groups of 2, each device sends at most 4 bytes, all together 8
///
/// device 0   0 .   ->   0 1
/// device 1   . 1   ->   0 1
/// ```
pub fn moves(body: &str) -> Result<String, String> {
    let (scene, _) = body.split_once("\n\n").ok_or("no empty line behind the layouts")?;
    let (about, layouts) = scene.rsplit_once('\n').ok_or("no layouts")?;
    let (from, to) = layouts.split_once("->").ok_or("no `->` between the layouts")?;
    let scene_of = Scene::new(about, from.trim(), to.trim())?;
    let [source, target] = scene_of.types();
    let traffic = Traffic::of(&source, &target);
    let mut text = format!("{scene}\n\n{}", traffic.kind.name());
    if traffic.kind.communicates() {
        let over = if traffic.axes.is_empty() {
            String::new()
        } else {
            format!(" over {}", traffic.axes.join(", "))
        };
        write!(
            text,
            "{over} in groups of {}: a device sends at most {} bytes, all devices together {}",
            traffic.group, traffic.bytes_per_device, traffic.bytes_total
        )
        .expect("a string takes any text");
    }
    text.push_str("\n\n");
    text.push_str(&match source.dims.len() {
        1 => rows(&source, &target),
        _ => owners(&source, &target),
    });
    Ok(text)
}

/// One row a device; `a`, `b`, ... before an index are parts, `=` is what they give together.
fn rows(source: &TensorType, target: &TensorType) -> String {
    let devices = source.layout.mesh().device_bound().max(target.layout.mesh().device_bound());
    let cell = |ty: &TensorType, device: u64, index: u64, combined: bool| -> String {
        let id = DeviceId::new(device as usize);
        let held = ty.layout.piece_of(&ty.sizes(), id).is_some_and(|held| held[0].iter().any(|i| i == index));
        match part_of(&ty.layout, id) {
            _ if !held => ".".into(),
            Some(part) => format!("{}{index}", char::from(b'a' + part as u8)),
            None if combined => format!("={index}"),
            None => index.to_string(),
        }
    };
    let reduces = source.layout.is_partial() && !target.layout.is_partial();
    let size = source.sizes()[0];
    let row = |ty: &TensorType, device, combined| -> Vec<String> {
        (0..size).map(|index| cell(ty, device, index, combined)).collect()
    };
    let sides: Vec<[Vec<String>; 2]> =
        (0..devices).map(|device| [row(source, device, false), row(target, device, reduces)]).collect();
    let width = |side: usize| sides.iter().flat_map(|row| &row[side]).map(String::len).max().unwrap_or(1);
    let drawn = |cells: &[String], side: usize| -> String {
        cells.iter().map(|cell| format!("{cell:<0$} ", width(side))).collect()
    };
    let rows = sides.iter().enumerate().map(|(device, [before, after])| {
        let row = format!("device {device}   {}  ->   {}", drawn(before, 0), drawn(after, 1));
        format!("{}\n", row.trim_end())
    });
    rows.collect()
}

/// Which part of the value a device holds.
fn part_of(layout: &Layout, device: DeviceId) -> Option<u64> {
    let place = layout.mesh().place_of(device)?;
    let coords = layout.mesh().coords(place);
    let axes = layout.partial().iter();
    axes.fold(None, |part, p| Some(part.unwrap_or(0) * layout.mesh().size(p.axis) + coords.along(p.axis)))
}

/// For a matrix: who holds each element.
fn owners(source: &TensorType, target: &TensorType) -> String {
    let sizes = source.sizes();
    let owner = |layout: &Layout, at: [u64; 2]| -> String {
        let holds = |device: &DeviceId| {
            let held = layout.piece_of(&sizes, *device).expect("a device of the mesh");
            held.iter().zip(at).all(|(set, index)| set.iter().any(|i| i == index))
        };
        let holders: Vec<String> =
            layout.mesh().devices().filter(holds).map(|d| d.index().to_string()).collect();
        holders.join(",")
    };
    let grid = |layout: &Layout, row: u64| -> String {
        (0..sizes[1]).map(|column| format!("{} ", owner(layout, [row, column]))).collect()
    };
    let arrow = |row: u64| if row == sizes[0] / 2 { "->" } else { "  " };
    let rows = (0..sizes[0]).map(|row| {
        let (before, after) = (grid(&source.layout, row), grid(&target.layout, row));
        format!("{}\n", format!("{before}  {}   {after}", arrow(row)).trim_end())
    });
    format!("Which device holds each element:\n\n{}", rows.collect::<String>())
}

/// One value in two layouts.
struct Scene {
    program: Program,
    placement: Placement,
}

impl Scene {
    /// `about` has meshes, the first one the placement's, then the value as `x: f32[s=8]`.
    fn new(about: &str, from: &str, to: &str) -> Result<Scene, String> {
        let (meshes, value) = about.rsplit_once('\n').ok_or("no value behind the meshes")?;
        let text = format!(
            "{meshes}\nprogram p {{\ninput {value}\ny = reshard(x)\noutput y\n}}\nplacement q for p on {} {{\nx: {from}\ny: {to}\n}}\n",
            meshes.split_whitespace().nth(1).ok_or("no mesh")?
        );
        let (file, found) = parse_file(&text, &[]);
        found.finish(()).map_err(|found| found.to_string())?;
        Ok(Scene { program: file.programs()[0].clone(), placement: file.placements()[0].clone() })
    }

    fn layouts(&self) -> [&Layout; 2] {
        [&self.placement.entries()[0].layout, &self.placement.entries()[1].layout]
    }

    fn types(&self) -> [TensorType; 2] {
        let sizes = self.sizes();
        [0, 1].map(|n| {
            let entry = &self.placement.entries()[n];
            typed(&self.program, &sizes, entry.value, &entry.layout)
        })
    }

    fn sizes(&self) -> Sizes {
        Sizes::bind(&self.program, []).expect("the sizes of a picture are written")
    }

    fn dims(&self) -> Vec<u64> {
        self.types()[0].sizes()
    }
}

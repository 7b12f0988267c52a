//! A `.weave` file: meshes, programs and placements in any order.
//!
//! ```text
//!  bytes ──▶ text ──▶ meshes, programs ──▶ --mesh m.tp=8 ──▶ placements ──▶ WeaveFile
//!                     (in the order they stand)              (they may stand before what they name)
//! ```

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote, quote_all};
use crate::layout::Lookup;
use crate::mesh::{Mesh, read_mesh};
use crate::placement::{KnownProgram, Placement, PlacementHead, PlacementScope, read_head, read_placement};
use crate::program::{Program, ReadProgram, Unread, read_program};
use crate::text::{Bookmark, Cursor, Kind, Reported};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Files of more bytes are refused.
pub const MOST_FILE_BYTES: usize = 1 << 26;

/// All that stands in a file.
///
/// Invariants: names are unique in each of the three lists; the program and the meshes of each placement are
/// in theirs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WeaveFile {
    meshes: Vec<Arc<Mesh>>,
    programs: Vec<Program>,
    placements: Vec<Placement>,
    /// The placements that were left out.
    broken: Vec<BrokenPlacement>,
}

/// A placement with a mistake, or of something that has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokenPlacement {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub span: Span,
}

impl WeaveFile {
    /// A file with a program alone, or with a placement of it too and the meshes that this uses; `None` if
    /// the placement is of another program or its meshes do not have names of their own.
    pub fn of(program: Program, placement: Option<Placement>) -> Option<WeaveFile> {
        let fits = placement.as_ref().is_none_or(|placement| placement.program == program.name);
        let meshes = placement.as_ref().map_or(Some(Vec::new()), distinct_meshes).filter(|_| fits)?;
        let placements = placement.into_iter().collect();
        Some(WeaveFile { meshes, programs: vec![program], placements, broken: Vec::new() })
    }

    /// The meshes, in the order they stand.
    pub fn meshes(&self) -> &[Arc<Mesh>] {
        &self.meshes
    }

    /// The programs, in the order they stand.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The placements, in the order they stand; the program of each is among the programs.
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// The mesh of that name.
    pub fn mesh(&self, name: &str) -> Option<&Arc<Mesh>> {
        self.meshes.iter().find(|mesh| mesh.name() == name)
    }

    /// The program of that name.
    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name)
    }

    /// The placement of that name.
    pub fn placement(&self, name: &str) -> Option<&Placement> {
        self.placements.iter().find(|placement| placement.name == name)
    }

    /// The placements that could not be read, in the order they stand.
    pub fn broken_placements(&self) -> &[BrokenPlacement] {
        &self.broken
    }

    /// The mesh that another size of an axis is for.
    pub fn mesh_of(&self, axis: &AxisSize) -> Option<&Arc<Mesh>> {
        let named = |(mesh, axis): (&str, &str)| self.mesh(mesh).filter(|mesh| mesh.axis(axis).is_some());
        axis.readings().find_map(named)
    }
}

/// Another size for an axis of a mesh, as `--mesh line.tp=8` gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisSize {
    /// Mesh and axis with a dot between: `line.tp`. Names may have dots themselves; the file tells
    /// where the mesh's ends.
    pub path: String,
    /// The size.
    pub size: u64,
}

impl AxisSize {
    /// What the path may mean: at each dot, a mesh and an axis.
    fn readings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.path.match_indices('.').map(|(at, _)| (&self.path[..at], &self.path[at + 1..]))
    }
}

/// Reads a file, with other sizes for some axes of its meshes (`&[]` leaves all as written). The result is
/// whole only if no mistake was found: things with a mistake are left out. Where any mistake is an error, a
/// file is simply parsed: `let file: WeaveFile = text.parse()?;`.
///
/// ```
/// use shardweave_compiler::file::{AxisSize, parse_file};
///
/// let (file, found) = parse_file("mesh line { tp = 2 }", &[AxisSize { path: "line.tp".into(), size: 8 }]);
/// let file = found.finish(file)?;
/// assert_eq!(file.meshes()[0].device_count(), 8);
/// # Ok::<(), shardweave_compiler::diagnostic::Diagnostics>(())
/// ```
pub fn parse_file(text: &str, axes: &[AxisSize]) -> (WeaveFile, Diagnostics) {
    if text.len() > MOST_FILE_BYTES {
        let message = format!("the file has {} bytes; at most {MOST_FILE_BYTES} are read", text.len());
        let mistake = Diagnostic::general(Code::TooLarge, message).help("split the file");
        return (WeaveFile::default(), mistake.into());
    }
    let mut cursor = Cursor::new(text);
    let mut reader = Reader::new();
    reader.definitions(&mut cursor);
    for axis in axes {
        reader.resize(&mut cursor, axis);
    }
    let (placements, broken) = reader.placements(&mut cursor);
    let file = WeaveFile { broken, ..reader.file(&mut cursor, placements) };
    (file, cursor.finish().in_text_order())
}

/// Reads a file from its bytes.
pub fn parse_bytes(bytes: &[u8], axes: &[AxisSize]) -> (WeaveFile, Diagnostics) {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse_file(text, axes),
        Err(error) => {
            let at = error.valid_up_to();
            let line = bytes[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            let message =
                format!("the file is not UTF-8: byte 0x{:02x} at position {at}, line {line}", bytes[at]);
            let mistake = Diagnostic::at(Code::NotUtf8, Span::new(at, at + 1), message);
            (WeaveFile::default(), mistake.help("save the file as UTF-8").into())
        }
    }
}

impl FromStr for WeaveFile {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<WeaveFile, Diagnostics> {
        let (file, found) = parse_file(text, &[]);
        found.finish(file)
    }
}

impl fmt::Display for WeaveFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mesh in &self.meshes {
            writeln!(f, "{mesh}")?;
        }
        for program in &self.programs {
            writeln!(f, "\n{program}")?;
        }
        for placement in &self.placements {
            if let Some(program) = self.program(&placement.program) {
                writeln!(f, "\n{}", placement.text(program))?;
            }
        }
        Ok(())
    }
}

/// The meshes of a placement, each once; `None` if two different ones have one name.
fn distinct_meshes(placement: &Placement) -> Option<Vec<Arc<Mesh>>> {
    let mut distinct: Vec<Arc<Mesh>> = Vec::new();
    for mesh in placement.meshes() {
        match distinct.iter().find(|known| known.name() == mesh.name()) {
            Some(known) if known != mesh => return None,
            Some(_) => {}
            None => distinct.push(mesh.clone()),
        }
    }
    Some(distinct)
}

/// Something with a name and a place; `None` if it has a mistake.
struct Named<T> {
    span: Span,
    thing: Option<T>,
}

/// The things of one kind.
struct Definitions<T> {
    /// The kind, for messages.
    what: &'static str,
    by_name: BTreeMap<String, Named<T>>,
    /// The names in the order they stand.
    order: Vec<String>,
}

impl<T> Definitions<T> {
    fn new(what: &'static str) -> Definitions<T> {
        Definitions { what, by_name: BTreeMap::new(), order: Vec::new() }
    }

    /// Enters a name; two things of one name are a mistake, and the first counts.
    fn define(&mut self, cursor: &mut Cursor<'_>, name: &str, new: Named<T>) {
        match self.by_name.get(name) {
            Some(first) => {
                let message = format!("the name {} is given to two {}", quote(name), self.what);
                let mistake = Diagnostic::at(Code::DuplicateName, new.span, message);
                let mistake = mistake.related(first.span, "first here");
                cursor.report(mistake.help("give one of them another name"));
            }
            None => {
                self.order.push(name.into());
                self.by_name.insert(name.into(), new);
            }
        }
    }

    fn look_up(&self, name: &str) -> Lookup<&T> {
        match self.by_name.get(name) {
            None => Lookup::Unknown,
            Some(Named { thing: None, .. }) => Lookup::Broken,
            Some(Named { thing: Some(thing), .. }) => Lookup::Found(thing),
        }
    }

    /// Those without a mistake, in the order they stand.
    fn into_sound(mut self) -> impl Iterator<Item = T> {
        self.order.into_iter().filter_map(move |name| self.by_name.remove(&name)?.thing)
    }
}

struct Reader<'a> {
    meshes: Definitions<Arc<Mesh>>,
    programs: Definitions<ReadProgram>,
    placement_names: Definitions<()>,
    /// Where the rest of each placement starts.
    placements: Vec<(PlacementHead<'a>, Bookmark)>,
}

impl<'a> Reader<'a> {
    fn new() -> Reader<'a> {
        Reader {
            meshes: Definitions::new("meshes"),
            programs: Definitions::new("programs"),
            placement_names: Definitions::new("placements"),
            placements: Vec::new(),
        }
    }

    /// Meshes and programs; of placements only the heads.
    fn definitions(&mut self, cursor: &mut Cursor<'a>) {
        loop {
            cursor.skip_newlines();
            let start = cursor.bookmark();
            let read = match cursor.peek().kind {
                Kind::End => return,
                Kind::Name("mesh") => self.mesh(cursor),
                Kind::Name("program") => self.program(cursor),
                Kind::Name("placement") => {
                    self.placement(cursor);
                    Ok(())
                }
                _ => Err(cursor.unexpected("`mesh`, `program` or `placement`")),
            };
            if read.is_err() {
                if cursor.bookmark() == start {
                    cursor.bump();
                }
                if !cursor.at_definition() {
                    cursor.skip_definition();
                }
            }
        }
    }

    fn mesh(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Reported> {
        let second = cursor.peek_second();
        let read = read_mesh(cursor).map(|(mesh, _)| Arc::new(mesh));
        if let Kind::Name(name) = second.kind {
            self.meshes.define(cursor, name, Named { span: second.span(), thing: read.clone().ok() });
        }
        read.map(drop)
    }

    fn program(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Reported> {
        let second = cursor.peek_second();
        let (thing, result) = match read_program(cursor) {
            Ok(read) => (Some(read), Ok(())),
            Err(Reported) => (None, Err(Reported)),
        };
        if let Kind::Name(name) = second.kind {
            self.programs.define(cursor, name, Named { span: second.span(), thing });
        }
        result
    }

    /// Reads the head of a placement and remembers where it goes on.
    fn placement(&mut self, cursor: &mut Cursor<'a>) {
        if let Ok(head) = read_head(cursor) {
            self.placement_names.define(cursor, head.name, Named { span: head.span, thing: Some(()) });
            self.placements.push((head, cursor.bookmark()));
        }
        // Also where a mistake is at a word that starts definitions: none starts inside a head.
        cursor.skip_definition();
    }

    /// Gives an axis another size.
    fn resize(&mut self, cursor: &mut Cursor<'_>, new: &AxisSize) {
        let readings = new.readings();
        let known: Vec<(&str, &str)> =
            readings.filter(|(mesh, _)| self.meshes.by_name.contains_key(*mesh)).collect();
        let chosen = known.iter().find_map(|(name, axis)| {
            let mesh = self.meshes.by_name[*name].thing.as_ref()?;
            Some((*name, mesh, mesh.resized(axis, new.size)?))
        });
        let (code, message, help) = match (chosen, known.first()) {
            (None, None) => {
                let meshes = quote_all(self.meshes.by_name.keys().map(String::as_str));
                (
                    Code::UnknownMesh,
                    "no mesh has this name".into(),
                    format!("meshes of the file: {meshes}; it is written `--mesh MESH.AXIS=SIZE`"),
                )
            }
            (None, Some((name, _))) => {
                let Some(mesh) = &self.meshes.by_name[*name].thing else { return };
                let axes = quote_all(mesh.axes().values().map(|axis| axis.name.as_str()));
                let message = format!("mesh {} has no such axis", quote(name));
                (Code::UnknownAxis, message, format!("its axes are {axes}"))
            }
            (Some((name, mesh, _)), _) if mesh.listed_devices().is_some() => {
                let message = format!("mesh {} lists its devices, so its axes stay as they are", quote(name));
                (Code::MeshDevices, message, "change the mesh in the file".into())
            }
            (Some((_, _, Err(error))), _) => (error.code(), error.to_string(), error.help().into()),
            (Some((name, _, Ok(mesh))), _) => {
                let name = name.to_string();
                self.meshes.by_name.entry(name).and_modify(|named| named.thing = Some(Arc::new(mesh)));
                return;
            }
        };
        let option = quote(&format!("--mesh {}={}", new.path, new.size));
        cursor.report(Diagnostic::general(code, format!("{option}: {message}")).help(help));
    }

    /// Placements, now that all that they may name is known.
    fn placements(&self, cursor: &mut Cursor<'_>) -> (Vec<Placement>, Vec<BrokenPlacement>) {
        fn known(read: &ReadProgram) -> KnownProgram<'_> {
            KnownProgram { program: &read.program, unread: &read.unread }
        }
        let programs = |name: &str| self.programs.look_up(name).map(known);
        let meshes = |name: &str| self.meshes.look_up(name).map(Arc::clone);
        let scope = PlacementScope { programs: &programs, meshes: &meshes };
        let (mut placements, mut broken) = (Vec::new(), Vec::new());
        for &(head, rest) in &self.placements {
            cursor.go_to(rest);
            match read_placement(cursor, head, scope) {
                Ok(placement) => placements.push(placement),
                Err(Reported) => {
                    let span = cursor.span_from(head.start);
                    broken.push(BrokenPlacement { name: head.name.into(), span });
                }
            }
        }
        (placements, broken)
    }

    /// Puts together what is sound, in the order it stands; warns of what no output needs.
    fn file(self, cursor: &mut Cursor<'_>, placements: Vec<Placement>) -> WeaveFile {
        let meshes = self.meshes.into_sound().collect();
        let sound = self.programs.into_sound().filter(|read| read.unread == Unread::Nothing);
        let programs: Vec<Program> = sound.map(|read| read.program).collect();
        for program in &programs {
            warn_unused(cursor, program);
        }
        WeaveFile { meshes, programs, placements, broken: Vec::new() }
    }
}

fn warn_unused(cursor: &mut Cursor<'_>, program: &Program) {
    for (value, needed) in program.needed().iter() {
        if !needed {
            let unused = &program.values[value];
            let message = format!("no output needs {}, so it is not computed", quote(&unused.name));
            let warning = Diagnostic::at(Code::UnusedValue, unused.span, message);
            cursor.warn(warning.help("leave it out, or make it an output"));
        }
    }
}

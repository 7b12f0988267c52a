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
use std::sync::Arc;

/// Files of more bytes are refused.
pub const MOST_FILE_BYTES: usize = 1 << 26;

/// All that stands in a file. Names are unique in each of the three lists.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WeaveFile {
    /// The meshes.
    pub meshes: Vec<Arc<Mesh>>,
    /// The programs.
    pub programs: Vec<Program>,
    /// The placements; the program of each is among the programs.
    pub placements: Vec<Placement>,
}

impl WeaveFile {
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

/// Reads a file. The result is whole only if no mistake was found: things with a mistake are left out.
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
    let placements = reader.placements(&mut cursor);
    let file = reader.file(&mut cursor, placements);
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
        let dots = new.path.match_indices('.').map(|(at, _)| (&new.path[..at], &new.path[at + 1..]));
        let known: Vec<(&str, &str)> =
            dots.filter(|(mesh, _)| self.meshes.by_name.contains_key(*mesh)).collect();
        let chosen = known.iter().find_map(|(name, axis)| {
            let mesh = self.meshes.by_name[*name].thing.as_ref()?;
            Some((*name, mesh, mesh.resized(axis, new.size)?))
        });
        let (code, message, help) = match (chosen, known.first()) {
            (None, None) => {
                let meshes = quote_all(self.meshes.by_name.keys().map(String::as_str));
                (Code::UnknownMesh, "no mesh has this name".into(), format!("meshes of the file: {meshes}"))
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
    fn placements(&self, cursor: &mut Cursor<'_>) -> Vec<Placement> {
        fn known(read: &ReadProgram) -> KnownProgram<'_> {
            KnownProgram { program: &read.program, unread: &read.unread }
        }
        let programs = |name: &str| self.programs.look_up(name).map(known);
        let meshes = |name: &str| self.meshes.look_up(name).map(Arc::clone);
        let scope = PlacementScope { programs: &programs, meshes: &meshes };
        let mut placements = Vec::new();
        for &(head, rest) in &self.placements {
            cursor.go_to(rest);
            placements.extend(read_placement(cursor, head, scope));
        }
        placements
    }

    /// Puts together what is sound, in the order it stands; warns of what no output needs.
    fn file(self, cursor: &mut Cursor<'_>, placements: Vec<Placement>) -> WeaveFile {
        let meshes = self.meshes.into_sound().collect();
        let sound = self.programs.into_sound().filter(|read| read.unread == Unread::Nothing);
        let programs: Vec<Program> = sound.map(|read| read.program).collect();
        for program in &programs {
            warn_unused(cursor, program);
        }
        WeaveFile { meshes, programs, placements }
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

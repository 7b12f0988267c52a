//! A `.weave` file: meshes, programs and placements in any order.
//!
//! ```text
//!  bytes ──▶ text ──▶ meshes, programs ──▶ --mesh m.tp=8 ──▶ placements ──▶ WeaveFile
//!                     (in the order they stand)              (they may stand before what they name)
//! ```

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote, quote_all};
use crate::layout::Lookup;
use crate::mesh::{Mesh, read_mesh};
use crate::placement::{KnownProgram, Placement, PlacementScope, read_placement};
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
    let mut reader = Reader::default();
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

#[derive(Default)]
struct Reader {
    meshes: BTreeMap<String, Named<Arc<Mesh>>>,
    programs: BTreeMap<String, Named<ReadProgram>>,
    placements: Vec<Bookmark>,
    placement_names: BTreeMap<String, Named<()>>,
    /// Names in the order they stand.
    mesh_order: Vec<String>,
    program_order: Vec<String>,
}

impl Reader {
    /// Meshes and programs; placements are only found.
    fn definitions(&mut self, cursor: &mut Cursor<'_>) {
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
        let named = match cursor.peek_second().kind {
            Kind::Name(name) => Some((name.to_string(), cursor.peek_second().span())),
            _ => None,
        };
        let read = read_mesh(cursor);
        if let Some((name, span)) = named {
            let thing = read.as_ref().ok().map(|(mesh, _)| Arc::new(mesh.clone()));
            define(cursor, "meshes", &mut self.meshes, &mut self.mesh_order, name, Named { span, thing });
        }
        read.map(drop)
    }

    fn program(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Reported> {
        let named = match cursor.peek_second().kind {
            Kind::Name(name) => Some((name.to_string(), cursor.peek_second().span())),
            _ => None,
        };
        let (thing, result) = match read_program(cursor) {
            Ok(read) => (Some(read), Ok(())),
            Err(Reported) => (None, Err(Reported)),
        };
        if let Some((name, span)) = named {
            define(
                cursor,
                "programs",
                &mut self.programs,
                &mut self.program_order,
                name,
                Named { span, thing },
            );
        }
        result
    }

    /// Remembers where a placement stands, and its name.
    fn placement(&mut self, cursor: &mut Cursor<'_>) {
        self.placements.push(cursor.bookmark());
        cursor.bump();
        cursor.eat_word("strict");
        let second_is_for = matches!(cursor.peek_second().kind, Kind::Name("for"));
        if let (Kind::Name(name), true) = (cursor.peek().kind, second_is_for) {
            let named = Named { span: cursor.peek().span(), thing: Some(()) };
            let mut order = Vec::new();
            define(cursor, "placements", &mut self.placement_names, &mut order, name.to_string(), named);
        }
        cursor.skip_definition();
    }

    /// Gives an axis another size.
    fn resize(&mut self, cursor: &mut Cursor<'_>, new: &AxisSize) {
        let dots = new.path.match_indices('.').map(|(at, _)| (&new.path[..at], &new.path[at + 1..]));
        let known: Vec<(&str, &str)> = dots.filter(|(mesh, _)| self.meshes.contains_key(*mesh)).collect();
        let chosen = known.iter().find_map(|(name, axis)| {
            let mesh = self.meshes.get(*name)?.thing.as_ref()?;
            Some((*name, mesh, mesh.resized(axis, new.size)?))
        });
        let (code, message, help) = match (chosen, known.first()) {
            (None, None) => {
                let meshes = quote_all(self.meshes.keys().map(String::as_str));
                (Code::UnknownMesh, "no mesh has this name".into(), format!("meshes of the file: {meshes}"))
            }
            (None, Some((name, _))) => {
                let Some(mesh) = &self.meshes[*name].thing else { return };
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
                self.meshes.entry(name).and_modify(|named| named.thing = Some(Arc::new(mesh)));
                return;
            }
        };
        let option = quote(&format!("--mesh {}={}", new.path, new.size));
        cursor.report(Diagnostic::general(code, format!("{option}: {message}")).help(help));
    }

    /// Placements, now that all that they may name is known.
    fn placements(&self, cursor: &mut Cursor<'_>) -> Vec<Placement> {
        let programs = |name: &str| match self.programs.get(name) {
            None => Lookup::Unknown,
            Some(Named { thing: None, .. }) => Lookup::Broken,
            Some(Named { thing: Some(read), .. }) => {
                Lookup::Found(KnownProgram { program: &read.program, unread: &read.unread })
            }
        };
        let meshes = |name: &str| match self.meshes.get(name) {
            None => Lookup::Unknown,
            Some(Named { thing: None, .. }) => Lookup::Broken,
            Some(Named { thing: Some(mesh), .. }) => Lookup::Found(mesh.clone()),
        };
        let scope = PlacementScope { programs: &programs, meshes: &meshes };
        let mut placements = Vec::new();
        for &start in &self.placements {
            cursor.go_to(start);
            placements.extend(read_placement(cursor, scope));
        }
        placements
    }

    /// Puts together what is sound, in the order it stands; warns of what no output needs.
    fn file(mut self, cursor: &mut Cursor<'_>, placements: Vec<Placement>) -> WeaveFile {
        let meshes = self.mesh_order.iter().filter_map(|name| self.meshes.remove(name)?.thing).collect();
        let programs = self.program_order.iter().filter_map(|name| self.programs.remove(name)?.thing);
        let sound = programs.filter(|read| read.unread == Unread::Nothing);
        let programs: Vec<Program> = sound.map(|read| read.program).collect();
        for program in &programs {
            warn_unused(cursor, program);
        }
        WeaveFile { meshes, programs, placements }
    }
}

/// Enters a name; two things of one name are a mistake, and the first counts.
fn define<T>(
    cursor: &mut Cursor<'_>,
    what: &str,
    names: &mut BTreeMap<String, Named<T>>,
    order: &mut Vec<String>,
    name: String,
    new: Named<T>,
) {
    match names.get(&name) {
        Some(first) => {
            let message = format!("the name {} is given to two {what}", quote(&name));
            let mistake = Diagnostic::at(Code::DuplicateName, new.span, message);
            cursor.report(mistake.related(first.span, "first here").help("give one of them another name"));
        }
        None => {
            order.push(name.clone());
            names.insert(name, new);
        }
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

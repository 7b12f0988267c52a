//! Placements from text. What does not depend on sizes is checked here.

use super::{Communication, Entry, Overlap, Placement};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote, quote_all};
use crate::layout::{LayoutScope, Lookup, Writer, parse_layout};
use crate::mesh::Mesh;
use crate::program::{Program, Unread, ValueId};
use crate::text::{Cursor, Kind, Reported, check_name, closest, read_alone};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A program that placements may speak of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownProgram<'a> {
    /// The program, as far as it could be read.
    pub program: &'a Program,
    /// What could not be read of it.
    pub unread: &'a Unread,
}

/// What placements are read against.
#[derive(Clone, Copy)]
pub(crate) struct PlacementScope<'a> {
    /// The programs of the file.
    pub programs: &'a dyn Fn(&str) -> Lookup<KnownProgram<'a>>,
    /// The meshes of the file.
    pub meshes: &'a dyn Fn(&str) -> Lookup<Arc<Mesh>>,
}

/// Reads a text that is one placement of `program` on one of `meshes`.
pub fn parse_placement(
    text: &str,
    program: &Program,
    meshes: &[Arc<Mesh>],
) -> Result<Placement, Diagnostics> {
    let find_program = |name: &str| match name == program.name {
        true => Lookup::Found(KnownProgram { program, unread: &Unread::Nothing }),
        false => Lookup::Unknown,
    };
    let find_mesh = |name: &str| match meshes.iter().find(|mesh| mesh.name() == name) {
        Some(mesh) => Lookup::Found(mesh.clone()),
        None => Lookup::Unknown,
    };
    let scope = PlacementScope { programs: &find_program, meshes: &find_mesh };
    read_alone(text, |cursor| {
        let head = read_head(cursor)?;
        read_placement(cursor, head, scope)
    })
}

/// `placement strict NAME for`: how a placement starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacementHead<'a> {
    /// Where the placement starts.
    pub start: Span,
    communication: Communication,
    /// The name, which may be none that a placement can have.
    pub name: &'a str,
    /// Where the name stands.
    pub span: Span,
}

/// Reads the head of a placement. Of `placement strict for p` the name is `strict`, which no placement can
/// have.
pub(crate) fn read_head<'a>(cursor: &mut Cursor<'a>) -> Result<PlacementHead<'a>, Reported> {
    let start = cursor.expect_word("placement")?;
    let strict = cursor.eat_word("strict");
    let (mut name, mut span) = cursor.name("the name of a placement")?;
    if let (Some(word), "for", false) = (strict, name, cursor.at_word("for")) {
        (name, span) = ("strict", word);
    } else {
        cursor.expect_word("for")?;
    }
    let communication = if strict.is_some() { Communication::AtReshards } else { Communication::Anywhere };
    Ok(PlacementHead { start, communication, name, span })
}

/// Reads a placement from behind its head to its `}`. `Err` if it has a mistake, or if its program or mesh
/// has one.
pub(crate) fn read_placement(
    cursor: &mut Cursor<'_>,
    head: PlacementHead<'_>,
    scope: PlacementScope<'_>,
) -> Result<Placement, Reported> {
    let before = cursor.mistakes();
    let PlacementHead { start, communication, name, span } = head;
    if let Err(mistake) = check_name("a placement", name, span) {
        cursor.report(mistake);
    }
    let (program_name, program_span) = cursor.name("the name of a program")?;
    cursor.expect_word("on")?;
    let (mesh_name, mesh_span) = cursor.name("the name of a mesh")?;
    let opened = cursor.expect("{")?;
    let program = match (scope.programs)(program_name) {
        Lookup::Found(known) => Some(known),
        Lookup::Broken => None,
        Lookup::Unknown => {
            let message = format!("there is no program {}", quote(program_name));
            let mistake = Diagnostic::at(Code::UnknownProgram, program_span, message);
            cursor.report(mistake.help("a placement is for a program of the same file"));
            None
        }
    };
    let mesh = match (scope.meshes)(mesh_name) {
        Lookup::Found(mesh) => Some(mesh),
        Lookup::Broken => None,
        Lookup::Unknown => {
            let message = format!("there is no mesh {}", quote(mesh_name));
            let mistake = Diagnostic::at(Code::UnknownMesh, mesh_span, message);
            cursor.report(mistake.help("define it: `mesh NAME { tp = 4 }`"));
            None
        }
    };
    let values = program.iter().flat_map(|known| known.program.values.iter());
    let values = values.map(|(id, value)| (value.name.as_str(), id)).collect();
    let mut reader =
        Reader { scope, program, mesh: mesh.clone(), values, entries: Vec::new(), seen: BTreeMap::new() };
    reader.body(cursor, name, opened);
    match (program, mesh) {
        (Some(KnownProgram { unread: Unread::Nothing, .. }), Some(mesh)) if cursor.mistakes() == before => {
            Ok(Placement {
                name: name.to_string(),
                program: program_name.to_string(),
                mesh,
                communication,
                entries: reader.entries,
                span: cursor.span_from(start),
            })
        }
        _ => Err(Reported),
    }
}

struct Reader<'a> {
    scope: PlacementScope<'a>,
    program: Option<KnownProgram<'a>>,
    mesh: Option<Arc<Mesh>>,
    values: BTreeMap<&'a str, ValueId>,
    entries: Vec<Entry>,
    /// Where each value is listed.
    seen: BTreeMap<String, Span>,
}

impl Reader<'_> {
    /// The entries up to the `}`.
    fn body(&mut self, cursor: &mut Cursor<'_>, name: &str, opened: Span) {
        cursor.skip_newlines();
        while !cursor.at("}") {
            if cursor.peek().kind == Kind::End || cursor.at_definition() {
                let message = format!("placement {} has no closing `}}`", quote(name));
                cursor.report(Diagnostic::at(Code::Syntax, opened, message));
                return;
            }
            let before = cursor.mistakes();
            let entry = self.entry(cursor);
            let ended = if cursor.mistakes() == before { cursor.end_statement() } else { Err(Reported) };
            match (entry, ended) {
                (Ok(entry), Ok(())) => self.entries.push(entry),
                (_, Err(Reported)) => cursor.skip_statement(),
                _ => {}
            }
            cursor.skip_newlines();
        }
        cursor.bump();
    }

    /// `y: s/tp, partial(cp) on late via ring`. `Err` without a new mistake if what it speaks of has one.
    fn entry(&mut self, cursor: &mut Cursor<'_>) -> Result<Entry, Reported> {
        let (name, span) = cursor.name("the name of a value or `}`")?;
        if !cursor.at(":") {
            let mistake = cursor.surprise("`:`");
            return Err(cursor.report(mistake.help("a line of a placement is written `x: s/tp`")));
        }
        cursor.bump();
        let value = self.value(cursor, name, span);
        if let Some(first) = self.seen.insert(name.to_string(), span) {
            let message = format!("{} is listed twice", quote(name));
            let mistake = Diagnostic::at(Code::DuplicateName, span, message).related(first, "first here");
            cursor.report(mistake.help("put all of its layout in one line"));
        }
        let dims = self.program.zip(value).map(|(known, value)| known.program.dim_names(value));
        let layout = parse_layout(
            cursor,
            &LayoutScope {
                value: name,
                dims: dims.as_deref(),
                home: self.mesh.as_ref(),
                meshes: self.scope.meshes,
                writer: Writer::User,
            },
        );
        let via = match cursor.eat_word("via") {
            Some(_) => Some(self.via(cursor, name, value)?),
            None => None,
        };
        Ok(Entry { value: value.ok_or(Reported)?, layout: layout?, via, span: cursor.span_from(span) })
    }

    fn value(&self, cursor: &mut Cursor<'_>, name: &str, span: Span) -> Option<ValueId> {
        let known = self.program?;
        let value = self.values.get(name).copied();
        if value.is_none() && !known.unread.may_define(name) {
            let message = format!("program {} has no value {}", quote(&known.program.name), quote(name));
            let mistake = Diagnostic::at(Code::UnknownValue, span, message);
            cursor.report(match closest(name, self.values.keys().copied()) {
                Some(near) => mistake.help(format!("did you mean `{near}`?")),
                None if self.values.is_empty() => mistake.help("define it in the program"),
                None => mistake.help(format!("its values are {}", quote_all(self.values.keys().copied()))),
            });
        }
        value
    }

    fn via(&self, cursor: &mut Cursor<'_>, name: &str, value: Option<ValueId>) -> Result<Overlap, Reported> {
        let (word, span) = cursor.name("a way of overlap")?;
        let Some(way) = Overlap::from_name(word) else {
            let ways: Vec<&str> = Overlap::ALL.into_iter().map(Overlap::name).collect();
            let mistake = Diagnostic::at(Code::Syntax, span, format!("{} is no way of overlap", quote(word)));
            return Err(cursor.report(mistake.help(format!("ways are {}", ways.join(" ")))));
        };
        let is_input = self.program.zip(value).is_some_and(|(known, value)| known.program.is_input(value));
        if is_input {
            let message = format!("`via` pins how an operation overlaps, but {} is an input", quote(name));
            let mistake = Diagnostic::at(Code::PinnedOverlap, span, message);
            return Err(cursor.report(mistake.help("write it at a result of an operation")));
        }
        Ok(way)
    }
}

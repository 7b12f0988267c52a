//! Meshes from text.

use super::{Mesh, MeshError};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote};
use crate::text::{Cursor, Kind, Reported, check_name, read_alone};
use std::str::FromStr;

impl FromStr for Mesh {
    type Err = Diagnostics;

    /// A mesh from a text of its own: `mesh grid { dp = 2, tp = 4 }`.
    fn from_str(text: &str) -> Result<Mesh, Diagnostics> {
        read_alone(text, |cursor| read_mesh(cursor).map(|(mesh, _)| mesh))
    }
}

/// Reads a mesh from `mesh` to its `}` or list of devices; also gives the place of its name. Newlines
/// inside the braces divide axes as commas do.
pub(crate) fn read_mesh(cursor: &mut Cursor<'_>) -> Result<(Mesh, Span), Reported> {
    let before = cursor.mistakes();
    cursor.expect_word("mesh")?;
    let (name, name_span) = cursor.name("the name of a mesh")?;
    let opened = cursor.expect("{")?;
    let mut axes = Vec::new();
    cursor.skip_newlines();
    while cursor.eat("}").is_none() {
        if cursor.peek().kind == Kind::End || cursor.at_definition() {
            let message = format!("mesh {} has no closing `}}`", quote(name));
            return Err(cursor.report(Diagnostic::at(Code::Syntax, opened, message)));
        }
        axes.push(axis(cursor)?);
        let newline = cursor.peek().kind == Kind::Newline;
        cursor.skip_newlines();
        let comma = cursor.eat(",").is_some();
        cursor.skip_newlines();
        if !comma && !newline && !cursor.at("}") {
            return Err(cursor.unexpected("`,` or `}`"));
        }
    }
    let devices = match cursor.eat_word("devices") {
        Some(_) => Some(cursor.list("[", "]", |c| c.count("the number of a device").map(|n| n.0))?),
        None => None,
    };
    if cursor.mistakes() > before {
        return Err(Reported);
    }
    let mesh = Mesh::new(name, axes, devices).map_err(|error| {
        let mistake = Diagnostic::at(error.code(), name_span, format!("in mesh {}, {error}", quote(name)));
        cursor.report(mistake.help(error.help()))
    })?;
    Ok((mesh, name_span))
}

/// `tp = 4`. A name that cannot be is told, and reading goes on.
fn axis(cursor: &mut Cursor<'_>) -> Result<(String, u64), Reported> {
    let (name, span) = cursor.name("the name of an axis or `}`")?;
    if let Err(mistake) = check_name("an axis", name, span) {
        cursor.report(mistake);
    }
    cursor.expect("=")?;
    let (size, _) = cursor.count("the size of an axis")?;
    Ok((name.to_string(), size))
}

impl MeshError {
    /// The kind of mistake it is of the user's.
    pub fn code(&self) -> Code {
        match self {
            MeshError::EmptyAxis(_) | MeshError::TooManyDevices | MeshError::TooManyAxes => Code::MeshSize,
            MeshError::AxisTwice(_) => Code::DuplicateName,
            MeshError::DeviceCount { .. } | MeshError::DeviceTwice(_) => Code::MeshDevices,
        }
    }

    /// The way out.
    pub fn help(&self) -> &'static str {
        match self {
            MeshError::EmptyAxis(_) => "an axis is at least 1 long",
            MeshError::AxisTwice(_) => "give one of them another name",
            MeshError::TooManyDevices => "make an axis shorter, or number the devices from 0",
            MeshError::TooManyAxes => "leave axes of size 1 out",
            MeshError::DeviceCount { .. } => "list one device for each place, the last axis varying fastest",
            MeshError::DeviceTwice(_) => "a device stands at most once in a mesh",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Mesh, String> {
        let mut cursor = Cursor::new(text);
        read_mesh(&mut cursor).map(|(mesh, _)| mesh).map_err(|_| cursor.finish().to_string())
    }

    #[test]
    fn a_mesh_prints_as_it_was_written() {
        for text in [
            "mesh line { tp = 4 }",
            "mesh grid { dp = 2, tp = 4 }",
            "mesh order { tp = 4 } devices [1, 0, 3, 2]",
            "mesh one { }",
        ] {
            assert_eq!(read(text).expect(text).to_string(), text);
        }
        for text in ["mesh m {\n a = 2 # rows\n\n b = 3,\n}\n", "mesh m { a = 2\n , b = 3 }"] {
            let lines = read(text).expect("braces may span lines");
            assert_eq!(lines.to_string(), "mesh m { a = 2, b = 3 }");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (text, expected) in [
            ("mesh m { a = 0 }", "error[E0201]: in mesh `m`, axis `a` has size 0"),
            ("mesh m { a = 70000 }", "error[E0201]: in mesh `m`, there are more than 65536 devices"),
            ("mesh m { a = 1, a = 2 }", "error[E0105]: in mesh `m`, axis `a` stands twice"),
            ("mesh m { stream = 2 }", "error[E0104]: `stream` is a reserved word and cannot name an axis"),
            (
                "mesh m { a = 2 } devices [1]",
                "error[E0202]: in mesh `m`, the axes make 2 places, but 1 devices",
            ),
            ("mesh m { a = 2 } devices [1, 1]", "error[E0202]: in mesh `m`, device 1 stands twice"),
            ("mesh m { a = 2 b = 3 }", "error[E0101]: expected `,` or `}`, found `b`"),
            ("mesh m { a = -2 }", "error[E0103]: `-2` cannot be the size of an axis"),
        ] {
            let found = read(text).expect_err(text);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }
}

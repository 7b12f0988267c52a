//! Reading text: from bytes to tokens, and a cursor over them that every text form is read with.
//!
//! ```text
//!  "y = add(x, 1)  # sum"  ── lex ──▶  Name(y) Mark(=) Name(add) Mark(() ...  ── Cursor ──▶  Op, Mesh, ...
//! ```
//!
//! The lexer keeps no state but a place in the text, so a cursor can be put anywhere at no cost: a
//! placement is read after the program that it speaks of, wherever it stands.

mod closest;
mod cursor;
mod lexer;
mod reserved;

pub use closest::closest;
pub use cursor::{Bookmark, Cursor, Reported, read_alone};
pub use lexer::{Kind, Token, is_name, lex, number, quoted_text};
pub use reserved::{RESERVED, check_built, check_name, check_spelling};

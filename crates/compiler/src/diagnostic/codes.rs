//! The table of error codes: one row a code. The documentation and the tests read it.

use std::fmt;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CodeRow {
    /// The code.
    pub code: Code,
    /// Its stable spelling.
    pub name: &'static str,
    /// What kind of mistake it is, for the documentation.
    pub about: &'static str,
}

macro_rules! codes {
    ($($code:ident $name:literal $about:literal)*) => {
        /// The kind of a mistake.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code {
            $(#[doc = $about] $code,)*
        }

        impl Code {
            /// Every code with its spelling and meaning.
            pub const TABLE: &'static [CodeRow] = &[
                $(CodeRow { code: Code::$code, name: $name, about: $about },)*
            ];

            /// The stable spelling, such as `E0101`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$code => $name,)* }
            }
        }
    };
}

// Hundreds: 01 text, 02 mesh, 03 program, 04 placement, 05 sizes, 06 inputs and outputs,
// 07 planning, 08 running, 09 command line. W: warnings.
codes! {
    Syntax             "E0101" "The text is not of the language at this place."
    NotUtf8            "E0102" "The file is not UTF-8."
    BadNumber          "E0103" "A number cannot be read, or is out of range."
    ReservedName       "E0104" "A reserved word stands where a name is needed."
    DuplicateName      "E0105" "Two things of one kind have the same name."
    MeshSize           "E0201" "A mesh has an axis of size 0, or too many devices."
    MeshDevices        "E0202" "A mesh's list of devices does not fit its axes, or names a device twice."
    UnknownMesh        "E0203" "No mesh has this name."
    UnknownAxis        "E0204" "The mesh has no axis of this name."
    UnknownValue       "E0301" "No value has this name here."
    UnknownOperation   "E0302" "No operation has this name."
    Operands           "E0303" "An operation has the wrong number or kind of operands or attributes."
    RepeatedDim        "E0304" "A dim stands twice in one value."
    MissingDim         "E0305" "An operand or result does not have a dim that the operation needs."
    ResultDims         "E0306" "The dims asked for are not the dims the operation gives."
    DTypeMismatch      "E0307" "The operands of an operation have different element types."
    DTypeNotAllowed    "E0308" "The operation is not defined on this element type."
    NumberDoesNotFit   "E0309" "A number cannot be held by the element type it meets."
    Pattern            "E0310" "A pattern of `einsum` or `rearrange` is not well formed or does not fit its operand."
    NoOutput           "E0311" "A program has no output."
    DuplicateOutput    "E0312" "A value is named as output twice."
    UnknownProgram     "E0401" "No program has this name."
    AxisTwice          "E0402" "A mesh axis stands twice in one value's layout."
    UnknownDim         "E0403" "The value has no dim of this name."
    DimTwice           "E0404" "A dim is cut twice in one entry."
    PieceCount         "E0405" "There are not as many explicit sizes as the axis is long."
    PieceSizes         "E0406" "Explicit sizes do not add up to the size of the piece they cut."
    BadCut             "E0407" "A cut or a step count is not possible."
    UnknownPlacement   "E0409" "No placement has this name."
    SizeConflict       "E0501" "A dim gets two different sizes."
    SizeMissing        "E0502" "A dim has no size."
    SizeRange          "E0503" "A size or an extent does not fit what the operation needs."
    TooLarge           "E0504" "A size, count or number of bytes is too large."
    InputMissing       "E0601" "An input has no array."
    InputUnknown       "E0602" "An array is given for a name that is no input."
    InputTwice         "E0603" "An input gets two arrays."
    InputShape         "E0604" "An array does not have the dims or sizes of its input."
    InputDType         "E0605" "An array does not have the element type of its input."
    WeightMissing      "E0606" "The weight files have no tensor of this name."
    FileRead           "E0607" "A file cannot be read, or is not what it claims to be."
    FileWrite          "E0608" "A file cannot be written."
    FormatDType        "E0609" "The file format cannot hold this element type."
    OutputUnknown      "E0610" "A name given for writing is no output."
    StrictPlacement    "E0701" "A strict placement would communicate outside a `reshard`."
    PinnedOverlap      "E0702" "The way of overlap that is asked for does not fit the operation."
    OutOfMemory        "E0703" "The plan needs more memory than there is."
    Threads            "E0704" "The machine does not start a thread for each device."
    IdOutOfRange       "E0801" "An id is outside the table that it is looked up in."
    DeviceFailed       "E0802" "A device failed while the program was running."
    Deadlock           "E0803" "Devices wait for each other and none can go on."
    CheckFailed        "E0804" "The outputs differ from those of one device."
    Fault              "E0805" "A fault of ours: a plan that must not run, or a step out of order."
    RankFailed         "E0806" "Another rank failed."
    RanksDiffer        "E0807" "Ranks were not started alike."
    TooFewRanks        "E0808" "The program has more devices than there are ranks."
    EngineFailed       "E0809" "The ranks cannot be joined, or what joins them failed."
    Arguments          "E0901" "The command line does not fit together."
    ChoiceNeeded       "E0902" "The file has several programs or placements and none is chosen."
    NotBuiltIn         "E0903" "The feature is not built into this binary."
    FormSyntax         "E0904" "A printed form cannot be read back."
    UnusedValue        "W0301" "A value that no output needs is not computed."
    UnusedMesh         "W0401" "An axis is given a size, but what is chosen does not use its mesh."
    NotJoined          "W0901" "A launcher of MPI has started several processes, but each of them runs the whole program."
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

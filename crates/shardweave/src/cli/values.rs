//! What flags take: names with sizes and files, numbers with units, choices.

use clap::ValueEnum;
use std::path::PathBuf;
use std::str::FromStr;

/// A form that a program goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Form {
    /// As written
    Program,
    /// Where every value lives, also those that are not listed
    Placement,
    /// One device's view, with what moves
    Local,
    /// Buffers, streams and events: what runs
    Host,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Program => "program",
            Form::Placement => "placement",
            Form::Local => "local",
            Form::Host => "host",
        }
    }
}

/// What plays the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Player {
    /// A thread for each device
    Threads,
    /// All devices in one thread, in a fixed order
    Lockstep,
    /// The program on one device, in f64
    Reference,
    /// A process for each device
    Mpi,
}

/// How ranks of one host give each other their pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Transport {
    /// They read each other's memory
    Shared,
    /// They send messages, as ranks of different hosts do
    Messages,
}

/// `s=128`, `line.tp=8`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedSize {
    pub name: String,
    pub size: u64,
}

impl FromStr for NamedSize {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedSize, String> {
        let (name, size) = named(text, "NAME=NUMBER")?;
        let size = size.parse().map_err(|_| format!("`{size}` is not a whole number from 0 on"))?;
        Ok(NamedSize { name: name.into(), size })
    }
}

/// `x=x.npy`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedFile {
    pub name: String,
    pub file: PathBuf,
}

impl FromStr for NamedFile {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedFile, String> {
        let (name, file) = named(text, "NAME=FILE")?;
        Ok(NamedFile { name: name.into(), file: file.into() })
    }
}

fn named<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    match text.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !rest.is_empty() => Ok((name, rest)),
        _ => Err(format!("not of the form {form}")),
    }
}

/// `2,8`: microseconds, GB/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    pub latency_us: f64,
    pub gigabytes_per_second: f64,
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Link, String> {
        let (latency, speed) = text.split_once(',').ok_or("not of the form US,GBS, such as 2,8")?;
        let latency_us: f64 = latency.parse().map_err(|_| format!("`{latency}` is not a number"))?;
        if !(latency_us.is_finite() && latency_us >= 0.0) {
            return Err(format!("a latency of {latency} us cannot be"));
        }
        Ok(Link { latency_us, gigabytes_per_second: positive(speed)? })
    }
}

/// `512,2048,1024`: the sizes of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProductSizes(pub [u64; 3]);

impl ProductSizes {
    /// Far more than any memory holds in two dims.
    const MOST: u64 = 1 << 24;
}

impl FromStr for ProductSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<ProductSizes, String> {
        let size = |text: &str| match text.parse() {
            Ok(size) if (1..=ProductSizes::MOST).contains(&size) => Ok(size),
            _ => Err(format!("`{text}` is not a whole number from 1 to {}", ProductSizes::MOST)),
        };
        match text.split(',').collect::<Vec<_>>()[..] {
            [m, n, k] => Ok(ProductSizes([size(m)?, size(n)?, size(k)?])),
            _ => Err("not of the form M,N,K, such as 512,2048,1024".into()),
        }
    }
}

/// A number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(_) => Err("must be above 0, and finite".into()),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}

//! The part of ureq that ferrotorch-hub calls, reading `$HOME/HOST/PATH` for `https://HOST/PATH`.
//!
//! `hf_download_model` of ferrotorch-hub 0.6.2 fetches every file anew, cached or not, so that
//! without this no example that calls it runs on a machine without network.

use std::{env, fmt, fs, io};

#[derive(Debug)]
pub enum Error {
    Status(u16, Response),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error::Status(code, _) = self;
        write!(out, "status code {code}: no such file below $HOME")
    }
}

impl std::error::Error for Error {}

#[derive(Debug)]
pub struct Request {
    url: String,
}

#[derive(Debug)]
pub struct Response {
    body: Vec<u8>,
}

pub fn get(url: &str) -> Request {
    Request {
        url: url.to_owned(),
    }
}

impl Request {
    pub fn set(self, _header: &str, _value: &str) -> Self {
        self
    }

    #[allow(clippy::result_large_err)]
    pub fn call(self) -> Result<Response, Error> {
        let home = env::var("HOME").unwrap_or_default();
        let path = self.url.trim_start_matches("https://");
        match fs::read(format!("{home}/{path}")) {
            Ok(body) => Ok(Response { body }),
            Err(_) => Err(Error::Status(404, Response { body: Vec::new() })),
        }
    }
}

impl Response {
    pub fn into_reader(self) -> Box<dyn io::Read + Send + Sync> {
        Box::new(io::Cursor::new(self.body))
    }

    pub fn into_json<T: serde::de::DeserializeOwned>(self) -> io::Result<T> {
        serde_json::from_slice(&self.body).map_err(io::Error::from)
    }
}

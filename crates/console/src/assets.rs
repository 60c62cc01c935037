//! The embedded files. They are compressed at build time; a client without gzip gets them unpacked.

use std::io::Read;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::read::GzDecoder;

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The page that all addresses of the console show.
pub(crate) const INDEX: &str = "index.html";
/// Stands in the page for [`VERSION`].
const VERSION_MARK: &str = "%VERSION%";

/// A file.
#[derive(Debug)]
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    /// Bytes before the compression.
    pub(crate) length: usize,
    pub(crate) packed: &'static [u8],
}

impl Asset {
    pub(crate) fn find(name: &str) -> Option<&'static Asset> {
        ASSETS.iter().find(|asset| asset.name == name)
    }

    fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "json" => "application/json",
            "svg" => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }

    /// The file as it was before the compression.
    pub(crate) fn unpacked(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        // The build wrote these bytes.
        let _ = GzDecoder::new(self.packed).read_to_end(&mut bytes);
        bytes
    }

    /// The answer with this file. Its address changes with its content, so a browser keeps it.
    pub(crate) fn response(&self, request: &HeaderMap) -> Response {
        let takes_gzip = request
            .get_all(header::ACCEPT_ENCODING)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|coding| coding.split(';').next().is_some_and(|name| name.trim() == "gzip"));
        let mut response = Response::new(match takes_gzip {
            true => Body::from(self.packed),
            false => Body::from(self.unpacked()),
        });
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type()));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        headers.insert(header::CACHE_CONTROL, forever);
        if takes_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// The page, with the addresses of this build's files in it.
pub(crate) fn page() -> Response {
    let text = Asset::find(INDEX).map(Asset::unpacked).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).replace(VERSION_MARK, VERSION);
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of all files, compressed.
    const TOTAL_MAX: usize = 300_000;
    /// Bytes of the files that the first page needs, compressed.
    const FIRST_VIEW_MAX: usize = 100_000;
    /// Lines of one module.
    const LINES_MAX: usize = 500;

    fn modules() -> impl Iterator<Item = (&'static str, String)> {
        let scripts = ASSETS.iter().filter(|asset| asset.name.ends_with(".js"));
        scripts.map(|asset| (asset.name, String::from_utf8(asset.unpacked()).unwrap()))
    }

    /// The modules that `name` imports statically, with itself.
    fn closure(name: &str, found: &mut Vec<String>) {
        if found.iter().any(|known| known == name) {
            return;
        }
        found.push(name.to_owned());
        let text = String::from_utf8(Asset::find(name).unwrap().unpacked()).unwrap();
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for line in text.lines().filter(|line| line.starts_with("import ") || line.starts_with("} from ")) {
            let Some(target) = line.split(['"', '\'']).nth(1) else { continue };
            let mut parts: Vec<&str> = folder.split('/').collect();
            for part in target.split('/') {
                match part {
                    "." => {}
                    ".." => drop(parts.pop()),
                    other => parts.push(other),
                }
            }
            closure(&parts.join("/"), found);
        }
    }

    #[test]
    fn the_files_are_small() {
        let total: usize = ASSETS.iter().map(|asset| asset.packed.len()).sum();
        assert!(total < TOTAL_MAX, "{total}");
        let mut first = vec![INDEX.to_owned(), "style.css".to_owned(), "i18n/en.json".to_owned()];
        closure("js/app.js", &mut first);
        closure("js/pages/overview.js", &mut first);
        let bytes: usize = first.iter().map(|name| Asset::find(name).unwrap().packed.len()).sum();
        assert!(bytes < FIRST_VIEW_MAX, "{bytes}: {first:?}");
        println!("all files {total} bytes, first view {bytes} bytes in {} files", first.len());
    }

    /// Data of nodes becomes text, never markup or code.
    #[test]
    fn no_script_makes_markup_or_code_of_data() {
        let banned = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "createContextualFragment",
            "DOMParser",
            "setAttribute(\"style\"",
            "http://",
            "https://",
        ];
        for (name, text) in modules() {
            for word in banned {
                let is_namespace = |line: &&str| !line.contains("www.w3.org/2000/svg");
                let found = text.lines().filter(is_namespace).find(|line| line.contains(word));
                assert_eq!(found, None, "{name}: {word}");
            }
            assert!(text.lines().count() < LINES_MAX, "{name} has {} lines", text.lines().count());
        }
    }

    /// Every key that a script or page names exists in both languages, with the same parameters.
    #[test]
    fn both_languages_have_the_same_texts() {
        let read = |name: &str| -> serde_json::Map<String, serde_json::Value> {
            serde_json::from_slice(&Asset::find(name).unwrap().unpacked()).unwrap()
        };
        let (english, chinese) = (read("i18n/en.json"), read("i18n/zh.json"));
        let parameters = |text: &serde_json::Value| {
            let text = text.as_str().unwrap();
            let mut names: Vec<String> = text
                .split('{')
                .skip(1)
                .filter_map(|part| part.split('}').next())
                .map(str::to_owned)
                .collect();
            names.sort();
            names.dedup();
            names
        };
        // Chinese has no singular.
        for (key, text) in english.iter().filter(|(key, _)| !key.ends_with(".one")) {
            let other = chinese.get(key).unwrap_or_else(|| panic!("{key} has no Chinese text"));
            assert_eq!(parameters(text), parameters(other), "{key}");
        }
        for key in chinese.keys() {
            assert!(english.contains_key(key), "{key} has no English text");
        }
        for (name, script) in modules() {
            for (start, opening) in script.match_indices("t(\"") {
                if script[..start].ends_with(|before: char| before.is_alphanumeric()) {
                    continue;
                }
                let key = script[start + opening.len()..].split('"').next().unwrap();
                let is_known = english.contains_key(key) || english.contains_key(&format!("{key}.other"));
                assert!(is_known, "{name}: {key}");
            }
        }
    }
}

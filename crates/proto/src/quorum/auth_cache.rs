//! A cache of the credentials in forwarded requests. Every request that a learner forwards carries those of
//! its client, and most clients send more than one. Cached credentials are shared and not decoded again.

use std::sync::Arc;

use crate::acl::Id;
use crate::jute::{DecodeError, Jute, Reader};

/// The number of cached lists: the cache is direct-mapped.
const PLACES: usize = 64;

/// Longer ones are decoded every time, bytes.
const BYTES_MAX: usize = 256;

/// The credentials that one link has received.
#[derive(Debug, Default)]
pub struct AuthCache {
    /// Empty before the first one.
    places: Vec<Option<CachedAuth>>,
}

#[derive(Clone, Debug)]
struct CachedAuth {
    encoded: Box<[u8]>,
    ids: Arc<[Id]>,
}

impl AuthCache {
    /// Decodes a list that takes all remaining bytes.
    pub(super) fn decode(&mut self, reader: &mut Reader<'_>) -> Result<Option<Arc<[Id]>>, DecodeError> {
        let encoded = reader.rest();
        let place = place_of(encoded);
        if let Some(Some(known)) = self.places.get(place)
            && *known.encoded == *encoded
        {
            return Ok(Some(known.ids.clone()));
        }
        let ids: Option<Arc<[Id]>> = Option::<Vec<Id>>::decode(reader)?.map(Arc::from);
        if let Some(ids) = &ids
            && encoded.len() <= BYTES_MAX
        {
            self.places.resize(PLACES, None);
            self.places[place] = Some(CachedAuth { encoded: encoded.into(), ids: ids.clone() });
        }
        Ok(ids)
    }
}

/// Lists mostly differ at their end, which is an address or a name.
fn place_of(encoded: &[u8]) -> usize {
    let end = encoded.last_chunk::<8>().map_or(0, |end| u64::from_be_bytes(*end));
    (end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(name: &str) -> Option<Vec<Id>> {
        Some(vec![Id::new("ip", name)])
    }

    #[test]
    fn what_is_known_is_shared_and_the_rest_is_read() {
        let mut known = AuthCache::default();
        let mut read = |ids: &Option<Vec<Id>>| {
            let mut bytes = Vec::new();
            ids.encode(&mut bytes);
            known.decode(&mut Reader::new(&bytes)).unwrap()
        };
        assert_eq!(read(&None), None);
        let first = read(&ids("127.0.0.1")).unwrap();
        assert!(Arc::ptr_eq(&first, &read(&ids("127.0.0.1")).unwrap()));
        // More than there are slots, twice: each list stays the same.
        for number in (0..200).chain(0..200) {
            let wanted = ids(&format!("10.0.{number}.1"));
            assert_eq!(read(&wanted).as_deref(), wanted.as_deref());
        }
        let long = ids(&"x".repeat(BYTES_MAX));
        let (one, other) = (read(&long).unwrap(), read(&long).unwrap());
        assert!(one == other && !Arc::ptr_eq(&one, &other), "long ones are not kept");
    }

    #[test]
    fn damaged_ones_are_refused() {
        let mut known = AuthCache::default();
        assert!(known.decode(&mut Reader::new(&[0, 0, 0, 1, 0, 0])).is_err());
    }
}

//! The second token of a DIGEST-MD5 client that can deviate in every directive, and those of the recorded
//! cases. The tests of the server's socket include this file too.

use zebu_security::sasl::digest_md5::{DigestInput, DigestProfile, digest_pair};

/// The second token of a client, with variations.
pub(crate) struct DigestResponse {
    user: &'static str,
    password: &'static str,
    uri: &'static str,
    authzid: Option<&'static str>,
    /// Keys and values; an empty value stands for the computed one.
    directives: Vec<(&'static str, String)>,
    tail: String,
}

impl DigestResponse {
    pub(crate) fn of(user: &'static str, password: &'static str) -> DigestResponse {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let uri = DigestProfile::CLIENTS.uri;
        DigestResponse {
            user,
            password,
            uri,
            authzid: None,
            directives: vec![
                ("charset", "utf-8".to_owned()),
                ("username", quoted(user)),
                ("realm", quoted("zk-sasl-md5")),
                ("nonce", String::new()),
                ("nc", "00000001".to_owned()),
                ("cnonce", quoted("abcdef")),
                ("digest-uri", quoted(uri)),
                ("maxbuf", "65536".to_owned()),
                ("response", String::new()),
                ("qop", "auth".to_owned()),
            ],
            tail: String::new(),
        }
    }

    pub(crate) fn without(mut self, key: &str) -> DigestResponse {
        self.directives.retain(|(name, _)| *name != key);
        self
    }

    pub(crate) fn set(mut self, key: &str, value: &str) -> DigestResponse {
        self.directives
            .iter_mut()
            .filter(|(name, _)| *name == key)
            .for_each(|(_, old)| *old = value.to_owned());
        self
    }

    pub(crate) fn rename(mut self, key: &str, new: &'static str) -> DigestResponse {
        self.directives.iter_mut().filter(|(name, _)| *name == key).for_each(|(name, _)| *name = new);
        self
    }

    pub(crate) fn uri(mut self, uri: &'static str) -> DigestResponse {
        self.uri = uri;
        self.set("digest-uri", &format!("\"{uri}\""))
    }

    pub(crate) fn authzid(mut self, authzid: &'static str) -> DigestResponse {
        self.authzid = Some(authzid);
        self.directives.push(("authzid", format!("\"{authzid}\"")));
        self
    }

    pub(crate) fn tail(mut self, tail: &str) -> DigestResponse {
        self.tail = tail.to_owned();
        self
    }

    /// The token. Its hash is that of the real nonce and realm, so that only the directive differs.
    pub(crate) fn token(&self, nonce: &str) -> Vec<u8> {
        let input = DigestInput {
            user: self.user,
            realm: "zk-sasl-md5",
            nonce: nonce.as_bytes(),
            client_nonce: b"abcdef",
            uri: self.uri.as_bytes(),
            authorization_id: self.authzid.map(str::as_bytes),
        };
        let hash = digest_pair(&input, self.password).response;
        let pair = |(name, value): &(&str, String)| match (*name, value.as_str()) {
            ("response", "") => format!("response={hash}"),
            ("nonce", "") => format!("nonce=\"{nonce}\""),
            (name, value) => format!("{name}={value}"),
        };
        let pairs: Vec<String> = self.directives.iter().map(pair).collect();
        (pairs.join(",") + &self.tail).into_bytes()
    }
}

/// The response of a client that does all as it should.
pub(crate) fn bob() -> DigestResponse {
    DigestResponse::of("bob", "bobsecret")
}

/// The second token of a recorded case; `None` is the null token.
pub(crate) fn token_of(case: &str, nonce: &str) -> Option<Vec<u8>> {
    let response = match case {
        "good" | "first token not empty (ignored)" | "a further token after success" => bob(),
        "create between the two rounds" => bob(),
        "wrong password" => DigestResponse::of("bob", "wrong"),
        "unknown user" => DigestResponse::of("nouser", ""),
        "realm missing" => bob().without("realm"),
        "realm other" => bob().set("realm", "\"other\""),
        "qop missing" => bob().without("qop"),
        "qop=\"auth\" quoted" => bob().set("qop", "\"auth\""),
        "qop=auth-int" => bob().set("qop", "auth-int"),
        "nc missing" => bob().without("nc"),
        "nc=00000002, hash made with 00000001" => bob().set("nc", "00000002"),
        // Every other hash is wrong.
        "nc=00000002, hash made with 00000002" => {
            bob().set("nc", "00000002").set("response", &"0".repeat(32))
        }
        "extra directive nonce-count=00000002" => bob().tail(",nonce-count=00000002"),
        "nonce other" => bob().set("nonce", "\"AAAA\""),
        "nonce missing" => bob().without("nonce"),
        "cnonce missing" => bob().without("cnonce"),
        "response missing" => bob().without("response"),
        "username missing" => bob().without("username"),
        "digest-uri in upper case, hash made with it" => bob().uri("ZOOKEEPER/ZK-SASL-MD5"),
        "digest-uri zookeeper/localhost" => bob().uri("zookeeper/localhost"),
        "digest-uri missing" => bob().without("digest-uri"),
        "charset missing" => bob().without("charset"),
        "charset=UTF-8" => bob().set("charset", "UTF-8"),
        "charset=iso-8859-1" => bob().set("charset", "iso-8859-1"),
        "maxbuf missing" => bob().without("maxbuf"),
        "maxbuf=abc" => bob().set("maxbuf", "abc"),
        "username twice" => bob().tail(",username=\"bob\""),
        "unknown directive foo=\"bar\"" => bob().tail(",foo=\"bar\""),
        "trailing comma" => bob().tail(","),
        "empty elements and blanks: ' , ,foo = bar'" => bob().tail(" , ,foo = bar"),
        "unterminated quote" => bob().tail(",foo=\"bar"),
        "authzid=bob" => bob().authzid("bob"),
        "authzid=super (ignored)" => bob().authzid("super"),
        "authzid empty" => bob().authzid(""),
        "directive name USERNAME" => bob().rename("username", "USERNAME"),
        "directive without value ',aaa' at the end" => bob().tail(",aaa"),
        "response token longer than 4096 bytes" => bob().tail(&format!(",foo=\"{}\"", "x".repeat(4096))),
        "token 00 01 02" => return Some(vec![0, 1, 2]),
        "empty second token" => return Some(Vec::new()),
        "token null (length -1)" => return None,
        "user mü€, password pässwörd" => DigestResponse::of("mü€", "pässwörd"),
        "user weird, password a\"b\\c,d=e" => DigestResponse::of("weird", "a\"b\\c,d=e"),
        "user empty, empty password" => DigestResponse::of("empty", ""),
        "user al@ice (no rule applies), no authzid" => DigestResponse::of("al@ice", "alicesecret"),
        "user al@ice, authzid=super: DEFECT, must be refused by us" => {
            DigestResponse::of("al@ice", "alicesecret").authzid("super")
        }
        "user super (superUser=super)" => DigestResponse::of("super", "adminsecret"),
        other => panic!("no token for case {other}"),
    };
    Some(response.token(nonce))
}

#!/bin/sh
# Writes the certificates that rcgen cannot make: X.509 v1, RSA 1024, SHA-1 and P-521. Run it in an empty directory.
set -e
ec() { openssl genpkey -algorithm EC -pkeyopt "ec_paramgen_curve:${2:-P-256}" -out "$1.key"; }
request() { openssl req -new -key "$1.key" -subj "/O=Zebu Test/CN=$1" -out "$1.csr"; }
sign() { name=$1 ca=$2; shift 2; openssl x509 -req -in "$name.csr" -CA "$ca.crt" -CAkey "$ca.key" -days 36500 -out "$name.crt" "$@"; }
ec ca
openssl req -x509 -new -key ca.key -days 36500 -out ca.crt -subj '/O=Zebu Test/CN=V1 CA' \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
printf 'basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n' > ca.ext
printf 'extendedKeyUsage=clientAuth\n' > client.ext
for name in v1 localhost revoked below intermediate oldca undera; do ec "$name"; request "$name"; done
sign v1 ca -set_serial 11
sign localhost ca -set_serial 12
sign revoked ca -set_serial 0xf0e1d2c3b4a59687
sign intermediate ca -set_serial 13 -extfile ca.ext
sign below intermediate -set_serial 14
sign oldca ca -set_serial 15
sign undera oldca -set_serial 16 -extfile client.ext
openssl genrsa -out rsa1024.key 1024; request rsa1024; sign rsa1024 ca -set_serial 17 -extfile client.ext
ec p521 P-521; request p521; sign p521 ca -set_serial 18 -extfile client.ext
openssl genrsa -out rsaca.key 2048
openssl req -x509 -new -key rsaca.key -days 36500 -out rsaca.crt -subj '/O=Zebu Test/CN=RSA CA' -addext basicConstraints=critical,CA:TRUE
ec sha1; request sha1; sign sha1 rsaca -set_serial 19 -sha1 -extfile client.ext
printf '[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=crlnumber\ndefault_md=sha256\ndefault_crl_days=36500\n[e]\nauthorityKeyIdentifier=keyid\n' > ca.cnf
printf 'R\t20990101000000Z\t260101000000Z\tF0E1D2C3B4A59687\tunknown\t/CN=revoked\n' > index.txt
echo 01 > crlnumber
openssl ca -config ca.cnf -gencrl -keyfile ca.key -cert ca.crt -crlexts e -out ca.crl
rm -f ./*.csr ./*.ext ca.cnf index.txt* crlnumber*

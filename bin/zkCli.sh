#!/bin/sh
# Keeps scripts that call zkCli.sh working: finds the zebu binary and hands the words over to its shell.

script=$0
while [ -L "$script" ]; do
    target=$(readlink "$script")
    case $target in
        /*) script=$target ;;
        *) script=$(dirname -- "$script")/$target ;;
    esac
done
here=$(cd -- "$(dirname -- "$script")" && pwd)

if [ -x "$here/zebu" ]; then
    zebu=$here/zebu
elif [ -x "$here/../target/release/zebu" ]; then
    zebu=$here/../target/release/zebu
elif zebu=$(command -v zebu); then
    :
else
    echo "zkCli.sh: the zebu binary is neither beside this script nor in PATH" >&2
    exit 1
fi
exec "$zebu" shell "$@"

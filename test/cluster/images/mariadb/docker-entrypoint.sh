#!/bin/bash
# Stand-in for the entrypoint of the official MariaDB image, for tests: the same
# variables, paths and user, written for Holdfast.
#
#   MARIADB_ROOT_PASSWORD | MARIADB_ROOT_PASSWORD_HASH   one is required on an empty volume
#   MARIADB_ROOT_HOST                                    default %
#   MARIADB_DATABASE, MARIADB_USER, MARIADB_PASSWORD | MARIADB_PASSWORD_HASH
# Each also as NAME_FILE. Not kept: MYSQL_* names, empty and random passwords, scripts in
# /docker-entrypoint-initdb.d, a start as root. They act only while the data folder is empty; afterwards the
# data folder decides.
set -euo pipefail
umask 077

datadir=/var/lib/mysql

log() { echo "$(date -u +%FT%TZ) [entrypoint] $*"; }
fail() {
  echo "[entrypoint] ERROR: $*" >&2
  exit 1
}

# from_file NAME: takes NAME from the file that NAME_FILE names.
from_file() {
  local name=$1 file=${1}_FILE
  [ -n "${!file:-}" ] || return 0
  [ -z "${!name:-}" ] || fail "$name and $file exclude each other"
  [ -r "${!file}" ] || fail "$file: cannot read ${!file}"
  printf -v "$name" %s "$(<"${!file}")"
}

# hash_of PASSWORD: what PASSWORD() says. The server gets no password to quote, only this.
hash_of() {
  local inner
  inner=$(printf %s "$1" | sha1sum | cut -d' ' -f1)
  printf "$(sed 's/../\\x&/g' <<<"$inner")" | sha1sum | cut -d' ' -f1 | tr a-f A-F | sed 's/^/*/'
}

# identified WHO PASSWORD HASH: the SQL that sets one of them.
identified() {
  local hash=$3
  [ -n "$2$3" ] || fail "$1 needs a password or the hash of one"
  [ -n "$hash" ] || hash=$(hash_of "$2")
  [[ $hash =~ ^\*[0-9A-F]{40}$ ]] || fail "the password hash of $1 must be * and 40 upper-case hexadecimal digits"
  echo "IDENTIFIED VIA mysql_native_password USING '$hash'"
}

accounts() {
  local root user schema host how
  # Whoever asks whether this function failed has switched off that errors end the script.
  root=$(identified root "${MARIADB_ROOT_PASSWORD:-}" "${MARIADB_ROOT_PASSWORD_HASH:-}") || return 1
  host=${MARIADB_ROOT_HOST:-%}
  # --bootstrap wants one statement per line and grants loaded first.
  echo "FLUSH PRIVILEGES;"
  echo "ALTER USER root@localhost $root;"
  echo "CREATE OR REPLACE USER root@'${host//\'/}' $root;"
  echo "GRANT ALL ON *.* TO root@'${host//\'/}' WITH GRANT OPTION;"
  for host in localhost 127.0.0.1 ::1; do
    echo "CREATE OR REPLACE USER healthcheck@'$host' IDENTIFIED BY '$1';"
    echo "GRANT USAGE ON *.* TO healthcheck@'$host';"
  done
  schema=${MARIADB_DATABASE:-} user=${MARIADB_USER:-}
  if [ -n "$schema" ]; then echo "CREATE DATABASE IF NOT EXISTS \`${schema//\`/\`\`}\`;"; fi
  if [ -n "$user" ]; then
    how=$(identified "$user" "${MARIADB_PASSWORD:-}" "${MARIADB_PASSWORD_HASH:-}") || return 1
    user="'${user//\'/\'\'}'@'%'"
    echo "CREATE USER $user $how;"
    # _ and % are wildcards in the name of a granted schema.
    schema=${schema//\`/\`\`} schema=${schema//_/\\_} schema=${schema//%/\\%}
    if [ -n "$schema" ]; then echo "GRANT ALL ON \`$schema\`.* TO $user;"; fi
  fi
}

# Everything is made in a folder beside and moved in, the folder "mysql" last: its
# presence means that the data folder is whole, so a kill midway starts over.
initialise() {
  local new=$datadir/.init password
  [ -w "$datadir" ] || fail "$datadir is not writable by uid $(id -u): check fsGroup and the volume"
  [ -n "${MARIADB_ROOT_PASSWORD:-}${MARIADB_ROOT_PASSWORD_HASH:-}" ] || fail "set MARIADB_ROOT_PASSWORD or MARIADB_ROOT_PASSWORD_HASH"
  log "initialising $datadir"
  rm -rf "$new"
  mkdir "$new"
  mariadb-install-db --no-defaults --datadir="$new" --auth-root-authentication-method=normal \
    --skip-test-db --rpm --cross-bootstrap >/tmp/install.log 2>&1 || { cat /tmp/install.log >&2; fail "mariadb-install-db ended with an error"; }
  password=$(head -c 24 /dev/urandom | base64 | tr -d '+/=')
  (accounts "$password") >/tmp/accounts.sql || exit 1
  mariadbd --no-defaults --bootstrap --datadir="$new" --tmpdir=/tmp --log-warnings=0 </tmp/accounts.sql >/tmp/install.log 2>&1 ||
    { cat /tmp/install.log >&2; fail "the accounts could not be made"; }
  rm /tmp/accounts.sql
  printf '[mariadb-client]\nuser=healthcheck\npassword=%s\nsocket=/run/mysqld/mysqld.sock\n' "$password" >"$new/.my-healthcheck.cnf"
  # What an earlier try had moved already is in the way.
  find "$new" -mindepth 1 -maxdepth 1 ! -name mysql -printf '%P\0' | (cd "$datadir" && xargs -0 rm -rf --)
  find "$new" -mindepth 1 -maxdepth 1 ! -name mysql -exec mv -t "$datadir" {} +
  mv "$new/mysql" "$datadir/mysql"
  rmdir "$new"
  sync -f "$datadir"
  log "initialised"
}

if [ "${1:0:1}" = - ]; then set -- mariadbd "$@"; fi
if [ "${1:-}" != mariadbd ]; then exec "$@"; fi
for name in MARIADB_ROOT_PASSWORD MARIADB_ROOT_PASSWORD_HASH MARIADB_ROOT_HOST MARIADB_DATABASE MARIADB_USER MARIADB_PASSWORD MARIADB_PASSWORD_HASH; do
  from_file $name
done
if [ -d "$datadir/mysql" ]; then
  log "data found: environment ignored"
else
  initialise
fi
shift
unset MARIADB_ROOT_PASSWORD MARIADB_ROOT_PASSWORD_HASH MARIADB_PASSWORD MARIADB_PASSWORD_HASH
exec mariadbd --datadir="$datadir" --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/mysqld.pid "--bind-address=*" "$@"

#!/bin/bash
# Stand-in for the official image's healthcheck.sh: each option is one check.
#   --connect              the server answers over its protocol
#   --innodb_initialized   InnoDB is up
set -u

ask() {
  mariadb --defaults-file=/var/lib/mysql/.my-healthcheck.cnf --connect-timeout=3 \
    --skip-column-names --batch --execute "$1" 2>&1
}

for check in "$@"; do
  case $check in
    --connect)
      # A refused login is an answer too.
      answer=$(ask 'SELECT 1') || [[ $answer == *'(28000)'* ]] || { echo "$answer"; exit 1; }
      ;;
    --innodb_initialized)
      [ "$(ask "SELECT 1 FROM information_schema.ENGINES WHERE engine='innodb' AND support IN ('YES','DEFAULT')")" = 1 ] ||
        { echo "InnoDB is not available"; exit 1; }
      ;;
    *)
      echo "healthcheck.sh: unknown check $check"
      exit 1
      ;;
  esac
done

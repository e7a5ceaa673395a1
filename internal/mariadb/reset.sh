set -eu
data=/var/lib/mysql
done=$data/.holdfast-reset
if [ ! -d $data/mysql ]; then
  echo "The volume is empty: there is no password to be reset"
  exit 0
fi
if [ "$(cat $done 2>/dev/null || true)" = "$RESET" ]; then
  exit 0
fi
hash=$(cat "$HASH_FILE")
server=$(command -v mariadbd || command -v mysqld)
# Statements are read from the input, one per line, by a server that nobody can connect to. It has not
# read the accounts until it is told to.
{
  echo "FLUSH PRIVILEGES;"
  for host in localhost %; do
    echo "CREATE USER IF NOT EXISTS 'root'@'$host';"
    echo "ALTER USER 'root'@'$host' IDENTIFIED BY PASSWORD '$hash';"
    echo "GRANT ALL PRIVILEGES ON *.* TO 'root'@'$host' WITH GRANT OPTION;"
  done
} | "$server" --bootstrap --datadir=$data --ignore-db-dirs=lost+found
echo "$RESET" >$done
echo "The password of root is now the one in the Secret"

"""`make goldens`: writes the goldens anew, for a change of the wire that is meant."""

from tests.golden.render import FOLDER, write_all

write_all()
print(f"wrote {FOLDER}; look at the difference before you commit it")

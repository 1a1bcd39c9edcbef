from ompd.commands.main import main

main()

! Threads of OpenMP that each do one kind of work over and over, until the process is stopped wherever they are by then.
module work
  implicit none
  integer, parameter :: wide = selected_real_kind(15)
  type :: node
    real(wide) :: value = 0
    type(node), pointer :: left => null(), right => null()
  end type
  interface
    function taking(x) result(y)
      import wide
      real(wide), intent(in) :: x
      real(wide) :: y
    end function
  end interface
contains
  recursive subroutine insert(tree, value)
    type(node), pointer, intent(inout) :: tree
    real(wide), intent(in) :: value
    if (.not. associated(tree)) then
      allocate (tree)
      tree%value = value
    else if (value < tree%value) then
      call insert(tree%left, value)
    else
      call insert(tree%right, value)
    end if
  end subroutine

  recursive subroutine drop(tree)
    type(node), pointer, intent(inout) :: tree
    if (.not. associated(tree)) return
    call drop(tree%left)
    call drop(tree%right)
    deallocate (tree)
  end subroutine

  function integral(f, steps) result(total)
    procedure(taking) :: f
    integer, intent(in) :: steps
    real(wide) :: total
    integer :: i
    total = 0
    do i = 1, steps
      total = total + f(real(i, wide) / steps) / steps
    end do
  end function

  subroutine trees(seed)
    integer, intent(in) :: seed
    type(node), pointer :: tree
    integer :: i
    nullify (tree)
    do i = 1, 60
      call insert(tree, mod(real(seed, wide) * i * 0.7548776662_wide, 1.0_wide))
    end do
    call drop(tree)
  end subroutine

  subroutine writing(seed)
    integer, intent(in) :: seed
    character(len=200) :: line
    integer :: i, back
    do i = 1, 10
      write (line, '(i8, 2x, f12.5, 2x, es14.6, a)') seed + i, seed * 0.37_wide, exp(mod(seed, 30) * 0.3_wide), ' end'
      read (line, *) back
    end do
  end subroutine

  subroutine callbacks(seed)
    integer, intent(in) :: seed
    real(wide) :: shift, total
    shift = mod(seed, 10)
    total = integral(shifted, 40) + integral(powered, 40)
    if (total < -1) print *, total
  contains
    ! An internal procedure that is passed on needs code on the stack.
    function shifted(x) result(y)
      real(wide), intent(in) :: x
      real(wide) :: y
      y = sin(x + shift) + sqrt(x)
    end function
    function powered(x) result(y)
      real(wide), intent(in) :: x
      real(wide) :: y
      y = (x + 1) ** (shift / 3) + tan(x)
    end function
  end subroutine

  subroutine matrices(seed)
    integer, intent(in) :: seed
    real(wide) :: a(24, 24), b(24, 24)
    real(wide), allocatable :: c(:, :)
    integer :: i
    a = reshape([(real(mod(i * seed, 101), wide), i = 1, 576)], [24, 24])
    b = transpose(a) + 1
    c = matmul(a, b)
    c = c(24:1:-1, :) * maxval(abs(c)) + spread(sum(c, dim=1), 2, 24)
    if (c(1, 1) < -1) print *, c(1, 1)
  end subroutine

  subroutine worker(number)
    integer, intent(in) :: number
    integer :: seed
    seed = number * 7919
    do
      seed = mod(seed + 1, 100000)
      select case (mod(number, 4))
      case (0)
        call trees(seed)
      case (1)
        call writing(seed)
      case (2)
        call callbacks(seed)
      case default
        call matrices(seed)
      end select
    end do
  end subroutine
end module

program main
  use work
  use omp_lib
  implicit none
  !$omp parallel
  !$omp barrier
  !$omp master
  print '(a)', 'ready'
  flush (6)
  !$omp end master
  call worker(omp_get_thread_num())
  !$omp end parallel
end program
